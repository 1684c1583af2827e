"""The tree in memory walks paths as a kernel does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.sim.linux.file_tree import FileTree

NAMES = st.sampled_from(["a", "b", "..", ".", "l"])


@pytest.fixture
def tree() -> FileTree:
    tree = FileTree()
    tree.text("/sys/devices/gpu/class", "0x030200\n")
    tree.link("/sys/bus/gpu", "/sys/devices/gpu")
    tree.link("/sys/loop", "/sys/loop")
    return tree


def number(tree: FileTree, path: str) -> int | None:
    with pytest.raises(OSError) as caught:
        tree.read(path)
    return caught.value.errno


def test_links_are_followed(tree: FileTree) -> None:
    assert tree.read("/sys/bus/gpu/class") == "0x030200\n"
    assert tree.real("/sys/bus/gpu/../gpu/class") == "/sys/devices/gpu/class"
    assert tree.readlink("/sys/bus/gpu") == "../../sys/devices/gpu"


def test_what_is_not_there_has_an_errno(tree: FileTree) -> None:
    assert number(tree, "/sys/none/class") == errno.ENOENT
    assert number(tree, "/sys/devices/gpu/class/deeper") == errno.ENOTDIR
    assert number(tree, "/sys/loop/x") == errno.ELOOP
    assert number(tree, "/sys/devices") == errno.EISDIR


def test_a_change_of_shape_is_seen_at_once(tree: FileTree) -> None:
    assert tree.exists("/sys/bus/gpu/class")
    tree.drop("/sys/devices/gpu")
    assert not tree.exists("/sys/bus/gpu/class")
    tree.text("/sys/devices/gpu/class", "new")
    assert tree.read("/sys/bus/gpu/class") == "new"


def test_links_of_proc_are_absolute(tree: FileTree) -> None:
    tree.link("/proc/7/fd/3", "/dev/nvidia0", relative=False)
    assert tree.readlink("/proc/7/fd/3") == "/dev/nvidia0"


def test_a_lazy_folder_is_filled_when_it_is_looked_into(tree: FileTree) -> None:
    filled: list[str] = []

    def fill() -> None:
        filled.append("now")
        tree.text("/sys/devices/vf/vendor", "0x10de\n")

    tree.lazy("/sys/devices/vf", fill)
    tree.link("/sys/devices/vf/driver", "/sys/devices/gpu")
    assert tree.exists("/sys/devices/vf")
    assert tree.names("/sys/devices") == ["gpu", "vf"]
    assert filled == []
    assert tree.names("/sys/devices/vf") == ["driver", "vendor"]
    assert tree.read("/sys/devices/vf/vendor") == "0x10de\n"
    assert filled == ["now"]


def test_a_replaced_file_is_seen_at_once(tree: FileTree) -> None:
    tree.text("/sys/a/b", "old")
    tree.link("/sys/l", "/sys/a")
    assert tree.read("/sys/l/b") == "old"
    tree.text("/sys/a/b", "new")
    tree.text("/sys/c/b", "other")
    assert tree.read("/sys/l/b") == "new"
    tree.link("/sys/l", "/sys/c")
    assert tree.read("/sys/l/b") == "other"


@settings(deadline=None)
@given(parts=st.lists(NAMES, min_size=1, max_size=8))
def test_every_walk_ends_where_a_real_one_does(
    parts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.getbasetemp() / "walk"
    (root / "a" / "b" / "a").mkdir(parents=True, exist_ok=True)
    (root / "b").mkdir(exist_ok=True)
    for link in (root / "a" / "l", root / "b" / "l"):
        if not link.is_symlink():
            link.symlink_to(root / "a" / "b")
    tree = FileTree()
    base = str(root)
    tree.folder(f"{base}/a/b/a")
    tree.folder(f"{base}/b")
    tree.link(f"{base}/a/l", f"{base}/a/b")
    tree.link(f"{base}/b/l", f"{base}/a/b")
    path = "/".join([base, *parts])
    try:
        expected = os.path.realpath(path, strict=True)
    except OSError:
        assert not tree.exists(path)
        return
    if Path(expected).is_relative_to(root):
        assert tree.real(path) == expected

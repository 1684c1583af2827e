"""The seam on a real tree of files: durable writes, no link followed, one change at a time."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vgpumgr.helper.system import System


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(str(tmp_path))


def number_of(caught: pytest.ExceptionInfo[OSError]) -> str:
    return errno.errorcode[caught.value.errno or 0]


def test_store_replaces_the_whole_file_and_leaves_nothing_beside(
    system: System, tmp_path: Path
) -> None:
    system.store("/var/lib/vgpumgr/epoch", "a longer text\n")
    system.store("/var/lib/vgpumgr/epoch", "2\n")
    assert system.read("/var/lib/vgpumgr/epoch") == "2\n"
    assert system.list("/var/lib/vgpumgr") == ["epoch"]
    mode = (tmp_path / "var/lib/vgpumgr/epoch").stat().st_mode
    assert stat.S_IMODE(mode) & 0o022 == 0, "others cannot write it"


def test_store_syncs_the_file_before_and_the_folder_after_the_rename(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def sync(handle: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def rename(*args: object) -> None:
        order.append("rename")
        replace(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "replace", rename)
    system.store("/claim.json", "{}")
    assert order == ["file", "rename", "folder"]


def test_store_follows_no_planted_link(system: System, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "epoch.tmp").symlink_to(target)
    with pytest.raises(OSError) as caught:
        system.store("/epoch", "1\n")
    assert number_of(caught) == "ELOOP"
    assert target.read_text() == "kept"


def test_write_never_creates(system: System, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        system.write("/create", "1")
    (tmp_path / "create").write_text("something longer")
    system.write("/create", "1")
    assert system.read("/create") == "1"


def test_links_and_real_paths_are_those_of_the_tree(system: System, tmp_path: Path) -> None:
    (tmp_path / "drivers/nvidia").mkdir(parents=True)
    (tmp_path / "driver").symlink_to("drivers/nvidia")
    assert system.link("/driver") == "drivers/nvidia"
    assert system.real("/driver") == "/drivers/nvidia"
    assert system.link("/drivers") is None
    assert system.link("/absent") is None


def test_absent_and_unreadable_are_not_the_same(system: System, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    assert not system.exists("/absent")
    assert not system.exists("/file/below")
    with pytest.raises(OSError) as caught:
        system.exists("/loop")
    assert number_of(caught) == "ELOOP"


def test_remove_takes_files_links_and_empty_folders(system: System, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("")
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(OSError) as caught:
        system.remove("/folder")
    assert number_of(caught) == "ENOTEMPTY"
    for path in ("/folder/file", "/link", "/folder"):
        system.remove(path)
    assert system.list("/") == []
    with pytest.raises(FileNotFoundError):
        system.remove("/folder")


def test_an_image_is_read_up_to_the_limit_with_its_size(system: System, tmp_path: Path) -> None:
    (tmp_path / "pool/sub").mkdir(parents=True)
    (tmp_path / "pool/sub/a.img").write_bytes(b"abcdef")
    assert system.read_bytes("/pool/sub/a.img", 4, "/pool") == (b"abcd", 6)


def test_a_whole_image_is_read_in_pieces(system: System, tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    content = bytes(range(256)) * 10_000
    (tmp_path / "pool/a.img").write_bytes(content)
    pieces = list(system.pieces("/pool/a.img", "/pool"))
    assert b"".join(pieces) == content
    assert len(pieces) == 3


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/pool/link.img", "ELOOP"),
        ("/pool/linked/secret", "ENOTDIR"),
        ("/pool/../outside/secret", "EXDEV"),
        ("/outside/secret", "EXDEV"),
        ("/poolside/secret", "EXDEV"),
        ("/pool", "EXDEV"),
        ("/pool/fifo", "EINVAL"),
        ("/pool/sub", "EINVAL"),
        ("/pool/absent", "ENOENT"),
    ],
)
def test_nothing_outside_the_pool_and_no_special_file_is_read(
    system: System, tmp_path: Path, path: str, expected: str
) -> None:
    for folder in ("pool/sub", "outside", "poolside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "secret").write_bytes(b"secret")
    (tmp_path / "pool/link.img").symlink_to("../outside/secret")
    (tmp_path / "pool/linked").symlink_to("../outside")
    os.mkfifo(tmp_path / "pool/fifo")
    with pytest.raises(OSError) as caught:
        system.read_bytes(path, 16, "/pool")
    assert number_of(caught) == expected
    with pytest.raises(OSError) as caught:
        list(system.pieces(path, "/pool"))
    assert number_of(caught) == expected


def test_a_group_file_that_does_not_exist_is_not_busy(system: System) -> None:
    assert system.busy("/dev/vfio/12") is False


def test_the_lock_is_held_by_one_and_freed_when_its_holder_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom vgpumgr.helper.system import System\n"
            f"with System({str(tmp_path)!r}).lock('/run/vgpumgr/lock'):\n"
            "    print('held', flush=True)\n    sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin and holder.stdout
    assert holder.stdout.readline() == b"held\n"
    system = System(str(tmp_path))
    monkeypatch.setattr(System, "wait", lambda self, seconds: None)
    with pytest.raises(OSError) as caught, system.lock("/run/vgpumgr/lock"):
        pass
    assert number_of(caught) == "EAGAIN"
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    with system.lock("/run/vgpumgr/lock"):
        pass


def test_only_programs_of_the_closed_list_run(system: System) -> None:
    with pytest.raises(PermissionError):
        system.run(("sh", "-c", "true"), 5)


@pytest.mark.parametrize(
    "argv",
    [
        ("nvidia-smi",),
        ("nvidia-smi", "--gpu-reset"),
        ("nvidia-smi", "-mig", "1"),
        ("nvidia-smi", "-i", "0", "--gpu-reset"),
        ("nvidia-smi", "--gpu-reset", "-i", "0000:41:00.0", "-f"),
    ],
)
def test_nvidia_smi_only_ever_resets_one_gpu(system: System, argv: tuple[str, ...]) -> None:
    with pytest.raises(PermissionError):
        system.run(argv, 5)


def test_a_program_that_takes_too_long_is_cut(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "modprobe"
    program.write_text("#!/bin/sh\necho begun\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(
        "vgpumgr.helper.allowed_programs._ENVIRONMENT", {"PATH": f"{tmp_path}:/bin"}
    )
    assert system.run(("modprobe", "vfio-pci"), 0.5) == (124, "begun\n")


@pytest.mark.parametrize(
    "argv",
    [
        ("sudo", "-n", "id"),
        ("sudo", "-n", "-l", "id"),
        ("sudo", "-n", "-l", "-u", "root"),
        ("systemctl", "start", "libvirtd"),
        ("systemctl",),
    ],
)
def test_sudo_and_systemctl_only_tell(system: System, argv: tuple[str, ...]) -> None:
    with pytest.raises(PermissionError):
        system.run(argv, 5)


def test_the_kernel_tells_whether_ntp_keeps_its_clock(system: System) -> None:
    assert system.synchronised() in {True, False}


def test_who_started_the_helper(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert system.user() == pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setenv("SUDO_USER", "gpuadm")
    assert system.user() == "gpuadm"

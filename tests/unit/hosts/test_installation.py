"""The helper as it travels: the same bytes, complete, runnable from a memfd or from its folder."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from vgpumgr.hosts.helper import installer
from vgpumgr.hosts.helper.helper_installation import look as look_at
from vgpumgr.hosts.helper.helper_launch import _files, bundle, helper_version, streamed
from vgpumgr.hosts.program_runner import CallCut, CompletedProgram
from vgpumgr.model.errors import HostUnreachable, OutcomeUnknown
from vgpumgr.model.host import Installed


def test_the_bundle_holds_the_helper_and_nothing_else_of_ours() -> None:
    names = zipfile.ZipFile(io.BytesIO(bundle())).namelist()
    assert {"vgpumgr/__init__.py", "vgpumgr/helper/__main__.py", "pynvml.py"} <= set(names)
    others = [name for name in names if not name.startswith("vgpumgr/helper/")]
    assert sorted(others) == ["pynvml.py", "vgpumgr/__init__.py"]


def test_the_bundle_holds_every_file_of_the_helper_whatever_its_folder() -> None:
    helper = Path(installer.__file__).parents[2] / "helper"
    sources = {f"vgpumgr/helper/{each.relative_to(helper)}" for each in helper.rglob("*.py")}
    assert "vgpumgr/helper/verbs/probe.py" in sources
    assert sources <= set(zipfile.ZipFile(io.BytesIO(bundle())).namelist())


def test_the_same_files_make_the_same_bundle() -> None:
    first = bundle()
    bundle.cache_clear()
    _files.cache_clear()
    assert bundle() == first


def test_a_streamed_helper_answers_from_a_memfd(tmp_path: Path) -> None:
    launch = streamed()
    ended = subprocess.run(
        [sys.executable, *launch.argv[1:]],
        input=launch.prefix + json.dumps({"verb": "version", "args": {}}).encode(),
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    answer = json.loads(ended.stdout)
    assert (answer["ok"], answer["result"]["helper"]) == (True, helper_version())
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_breaks_off_runs_nothing() -> None:
    launch = streamed()
    ended = subprocess.run(
        [sys.executable, *launch.argv[1:]], input=launch.prefix[:1000], capture_output=True
    )
    assert ended.returncode == 1 and b"did not arrive whole" in ended.stderr


def order(root: Path, **more: str) -> bytes:
    places = {
        "folder": str(root / "lib" / "vgpumgr"),
        "launcher": str(root / "lib" / "vgpumgr" / "vgpumgr-helper"),
        "sudoers": str(root / "sudoers.d" / "vgpumgr"),
        "sudoers_line": "",
    }
    return json.dumps({**places, **more}).encode() + b"\n"


def ordered(stdin: bytes) -> dict[str, object]:
    ended = subprocess.run(
        [sys.executable, "-I", installer.__file__], input=stdin, capture_output=True, check=True
    )
    return dict(json.loads(ended.stdout))


def install(root: Path, line: str = "") -> dict[str, object]:
    return ordered(order(root, do="install", sudoers_line=line) + bundle())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sudoers.d").mkdir()
    return tmp_path


def test_an_installed_helper_answers_and_is_replaced_whole(root: Path) -> None:
    folder = root / "lib" / "vgpumgr"
    assert install(root)["ok"] is True
    (folder / "vgpumgr" / "helper" / "stale.py").write_text("")
    assert install(root)["ok"] is True
    assert not (folder / "vgpumgr" / "helper" / "stale.py").exists()
    assert [each.name for each in folder.parent.iterdir()] == ["vgpumgr"]
    ended = subprocess.run(
        [sys.executable, "-I", folder / "vgpumgr-helper"],
        input=b'{"verb": "version"}',
        capture_output=True,
        check=True,
    )
    assert json.loads(ended.stdout)["result"]["helper"] == helper_version()
    assert (folder / "vgpumgr-helper").stat().st_mode & 0o777 == 0o755
    assert not any(each.stat().st_mode & 0o022 for each in folder.rglob("*"))


def test_the_rule_is_written_readable_by_root_alone_and_leaves_no_draft(root: Path) -> None:
    line = 'gpuadm ALL=(root) NOPASSWD: /usr/local/lib/vgpumgr/vgpumgr-helper ""'
    assert install(root, line)["ok"] is True
    (rule,) = (root / "sudoers.d").iterdir()
    assert (rule.name, rule.read_text()) == ("vgpumgr", line + "\n")
    assert rule.stat().st_mode & 0o777 == 0o440


def test_without_sudo_on_the_host_the_rule_is_refused_with_a_reason(root: Path) -> None:
    (root / "sudoers.d").rmdir()
    answer = install(root, "x ALL=(root) NOPASSWD: /bin/true")
    assert answer["ok"] is False and "install sudo" in str(answer["why"])


def test_removing_leaves_nothing_and_twice_is_no_error(root: Path) -> None:
    install(root, 'gpuadm ALL=(root) NOPASSWD: /x ""')
    for _ in range(2):
        assert ordered(order(root, do="remove"))["ok"] is True
    assert list((root / "sudoers.d").iterdir()) == []
    assert not (root / "lib" / "vgpumgr").exists()


def test_a_zip_that_broke_on_the_way_changes_nothing(root: Path) -> None:
    install(root)
    before = sorted((root / "lib").rglob("*"))
    answer = ordered(order(root, do="install") + bundle()[:-100])
    assert answer["ok"] is False
    assert [each for each in before if not each.exists()] == []


def look(root: Path) -> dict[str, object]:
    return ordered(order(root, do="look", state=str(root / "state")))


def test_a_look_tells_what_is_there_and_whose(root: Path) -> None:
    nothing = {"helper": False, "bundle": "", "fleets": [], "state": False}
    assert look(root) == {"ok": True, "why": "", **nothing}
    install(root)
    (root / "state" / "fleets").mkdir(parents=True)
    (root / "state" / "fleets" / "one").touch()
    (root / "state" / "fleets" / "two.tmp").touch()  # a mark whose writing was cut
    digest = hashlib.sha256(bundle()).hexdigest()
    there = {"helper": True, "bundle": digest, "fleets": ["one"], "state": True}
    assert look(root) == {"ok": True, "why": "", **there}


class Says:
    """A runner whose programs end so."""

    def __init__(self, ended: CompletedProgram | CallCut) -> None:
        self.ended, self.argv = ended, ()

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        self.argv = tuple(argv)
        if isinstance(self.ended, CallCut):
            raise self.ended
        return self.ended


def test_a_look_needs_no_rights_and_knows_the_helper_that_we_bring() -> None:
    answer = {"ok": True, "helper": True, "bundle": "old", "fleets": ["one"], "state": True}
    runner = Says(CompletedProgram(0, json.dumps(answer).encode(), ""))
    found = look_at("h1", runner)
    assert found == Installed(helper=True, current=False, fleets=("one",), state=True)
    assert runner.argv[0] == "python3"


def test_what_could_not_be_read_is_not_taken_for_absent() -> None:
    refused = {"ok": False, "why": "Permission denied"}
    for ended in (
        CompletedProgram(0, json.dumps(refused).encode(), ""),
        CompletedProgram(1, b"", "no python3"),
    ):
        with pytest.raises(OutcomeUnknown):
            look_at("h1", Says(ended))
    with pytest.raises(HostUnreachable):
        look_at("h1", Says(CallCut("connection lost", timed_out=False)))

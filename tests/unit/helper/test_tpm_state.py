"""The state of a TPM read on one machine and written on another, on real files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs.tpm_state import FOLDER

UUID = "4b20d080-1b54-4048-85b3-a6a62d165c01"
STATE = bytes(range(256)) * 40


class Machine(System):
    """A tree of files, changed as root."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.state = root / FOLDER[1:] / UUID / "tpm2"

    def root(self) -> bool:
        return True

    def call(self, verb: str, **args: object) -> dict[str, Any]:
        (Path(self._prefix) / "run/vgpumgr").mkdir(parents=True, exist_ok=True)
        request = {"verb": verb, "args": {"uuid": UUID, **args}, "fleet": "f", "epoch": 1}
        return handle(request, self)


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "here")
    made.state.mkdir(parents=True)
    (made.state / "tpm2-00.permall").write_bytes(STATE)
    (made.state / ".lock").touch()
    return made


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    (tmp_path / "there").mkdir()
    return Machine(tmp_path / "there")


def test_it_goes_over_and_is_root_s_alone(here: Machine, there: Machine) -> None:
    files = here.call("tpm_state_read")["result"]["files"]
    assert {name: base64.b64decode(each) for name, each in files.items()} == {
        "tpm2-00.permall": STATE
    }
    for _ in range(2):
        assert there.call("tpm_state_write", files=files)["ok"]
    written = there.state / "tpm2-00.permall"
    assert written.read_bytes() == STATE and written.stat().st_mode & 0o777 == 0o600
    assert there.state.stat().st_mode & 0o777 == 0o700
    assert there.call("tpm_state_remove")["result"] == {"removed": True}
    assert not there.state.parent.exists()


def test_what_libvirt_made_stays(here: Machine) -> None:
    refused = here.call("tpm_state_write", files={"tpm2-00.permall": "AAAA"})
    assert refused["error"]["code"] == "refused"
    assert here.call("tpm_state_remove")["result"] == {"removed": False}
    assert (here.state / "tpm2-00.permall").read_bytes() == STATE


@pytest.mark.parametrize(
    "files",
    [{}, {"../a": "AAAA"}, {"a": "%"}, {"a": 3}, {"a": "A" * (400 << 10)}, {".lock": "AAAA"}],
)
def test_what_is_no_state_is_refused(there: Machine, files: dict[str, object]) -> None:
    assert there.call("tpm_state_write", files=files)["error"]["code"] == "bad-argument"
    assert not there.state.parent.exists()


def test_a_link_is_not_followed(here: Machine, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (here.state / "tpm2-00.permall").unlink()
    (here.state / "tpm2-00.permall").symlink_to(tmp_path / "secret")
    assert not here.call("tpm_state_read")["ok"]


DOMAIN = """<!-- written by libvirt --><domain type="kvm"><name>desk</name><uuid>{uuid}</uuid>
<metadata>{mark}</metadata></domain>"""
MARK = '<v:vm xmlns:v="https://vgpumgr.dev/v1" fleet="{}" id="a"/>'


@pytest.mark.parametrize("folder", ["etc/libvirt/qemu", "run/libvirt/qemu"])
@pytest.mark.parametrize(
    "mark, ours", [("", False), (MARK.format("g"), False), (MARK.format("f"), True)]
)
def test_the_tpm_of_a_domain_of_others_is_left_alone(
    here: Machine, tmp_path: Path, folder: str, mark: str, ours: bool
) -> None:
    file = tmp_path / "here" / folder / "desk.xml"
    file.parent.mkdir(parents=True)
    domain = DOMAIN.format(uuid=UUID, mark=mark)
    file.write_text(domain if "etc" in folder else f"<domstatus>{domain[27:]}</domstatus>")
    (file.parent / "other.xml").write_text("<nonsense")
    files = {"tpm2-00.permall": base64.b64encode(STATE).decode()}
    told = here.call("tpm_state_read")
    for answer in (told, here.call("tpm_state_write", files=files), here.call("tpm_state_remove")):
        assert answer["ok"] or answer["error"]["code"] == "claim-mismatch"
        assert answer["ok"] is ours
    assert "AAEC" in str(told) or not ours

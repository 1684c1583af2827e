"""Lists from a ledger that was named and is not there say so; a refused restore names no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgpumgr.cli.root import root
from vgpumgr.endpoints.vm_backups import _without_file
from vgpumgr.model.errors import Conflict
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm_backup import VmBackup


def test_a_wrong_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root.main(["--state-dir", str(tmp_path), "vm", "list"], standalone_mode=False)
    said = capsys.readouterr().err
    assert f"there is no ledger at {tmp_path}/ledger.sqlite: vgpumgr host add" in said
    assert not list(tmp_path.iterdir())


def test_a_refused_restore_names_no_file() -> None:
    backup = VmBackup(
        id="0123456789",
        vm_id="v",
        vm="a",
        tenant="default",
        target="t",
        pool="p",
        host="h",
        created_at=0.0,
        moment=DiskMoment.OFF,
    )
    with pytest.raises(Conflict) as refused, _without_file(backup):
        raise Conflict("no room", next="vgpumgr apply -f FILE --partial")
    assert refused.value.next.startswith("vgpumgr backup restore 01234567 --gpu PROFILE")
    assert "-f FILE" not in refused.value.next

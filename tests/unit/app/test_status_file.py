"""The status file of `serve`, in a folder that others may write to as well."""

from __future__ import annotations

import json
import os
from pathlib import Path

from vgpumgr.app.controller_process import StatusFile
from vgpumgr.engine.controller.cycle_schedule import ControllerStatus


def test_no_link_that_somebody_put_there_is_followed(tmp_path: Path) -> None:
    """It is written beside its place first, and whoever knows the name could be there before."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (f".serve.json.{os.getpid()}", ".serve.json.tmp", "serve.json"):
        (tmp_path / name).symlink_to(victim)
    StatusFile(tmp_path / "serve.json", 30.0).show(ControllerStatus(at=100.0))
    assert victim.read_text() == "precious"
    assert json.loads((tmp_path / "serve.json").read_text())["running"] is True
    assert not (tmp_path / "serve.json").is_symlink()


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "serve.json").mkdir()
    StatusFile(tmp_path / "serve.json", 30.0).show(ControllerStatus(at=100.0))
    assert [each.name for each in tmp_path.iterdir()] == ["serve.json"]


def test_it_is_written_again_once_it_is_old_or_the_clock_was_put_back(tmp_path: Path) -> None:
    file = StatusFile(tmp_path / "serve.json", 30.0)
    for at, there in ((5000.0, 5000.0), (5001.0, 5000.0), (5011.0, 5011.0), (1400.0, 1400.0)):
        file._not_before = 0.0
        file.show(ControllerStatus(at=at))
        assert json.loads((tmp_path / "serve.json").read_text())["at"] == there

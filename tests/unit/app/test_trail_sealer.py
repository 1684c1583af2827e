"""Sealing in `serve` and by hand: within a second, by one at a time, and what fails is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.store import values
from vgpumgr.app.config import Config
from vgpumgr.app.controller_process import ControllerOptions, ControllerProcess
from vgpumgr.app.trail_key import trail_key
from vgpumgr.app.trail_sealer import CLAIM, TrailSealer, kept_note, seal_now, trail_sealer
from vgpumgr.audit.signed_note import open_note
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.model.errors import Conflict
from vgpumgr.model.quota import Quota


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Does it hold before so much time has passed?"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.02)
    return False


def test_records_are_sealed_while_it_runs_and_once_more_at_its_end(tmp_path: Path) -> None:
    keys, events = tmp_path / "keys", list[ControllerEvent]()
    ledger = values.fleet(tmp_path / "ledger.db")
    opened = values.open_ledger(tmp_path / "ledger.db")
    with trail_sealer(ledger, keys, events.append):
        assert within(10, lambda: bool(kept_note(keys)[1]))
        opened.set_quota(Quota(tenant="blue"))
        assert within(10, lambda: len(opened.sealed_records(0, 100)) == len(opened.audit()))
        opened.set_quota(Quota(tenant="red"))
    key = trail_key(keys).public
    head = open_note(opened.newest_note(), [key])
    assert head.size == len(opened.audit())
    assert kept_note(keys)[1] == opened.newest_note()
    assert events == []
    values.close_all()


def test_one_process_seals_at_a_time(tmp_path: Path) -> None:
    ledger = values.fleet(tmp_path / "ledger.db")
    other = values.open_ledger(tmp_path / "ledger.db")
    assert other.claim(CLAIM)
    with pytest.raises(Conflict, match="another process seals"):
        seal_now(ledger, tmp_path)
    TrailSealer(ledger, tmp_path, _unheard).round()
    assert ledger.newest_note() == ""
    other.release(CLAIM)
    assert seal_now(ledger, tmp_path) is not None
    assert seal_now(ledger, tmp_path) is None
    assert other.claim(CLAIM)
    values.close_all()


def _unheard(event: ControllerEvent) -> None:
    raise AssertionError(event)


def test_what_cannot_be_sealed_is_told_once(tmp_path: Path) -> None:
    ledger = values.fleet(tmp_path / "ledger.db")
    (tmp_path / "audit_ed25519").write_text("no key")
    events: list[ControllerEvent] = []
    sealer = TrailSealer(ledger, tmp_path, events.append)
    sealer._ending.wait = lambda _=None: len(events) > 0  # type: ignore[method-assign]
    sealer.run()
    [event] = events
    assert event.kind is EventKind.TRAIL_UNSEALED
    assert "the key of the audit trail cannot be used" in event.text
    assert ledger.newest_note() == ""
    values.close_all()


def test_a_folder_that_cannot_be_written_stops_no_seal(tmp_path: Path) -> None:
    ledger = values.fleet(tmp_path / "ledger.db")
    seal_now(ledger, tmp_path)
    (tmp_path / "audit_checkpoint").unlink()
    (tmp_path / "audit_checkpoint").mkdir()
    ledger.set_quota(Quota(tenant="blue"))
    assert seal_now(ledger, tmp_path) is not None
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    values.close_all()


def test_serve_seals(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = values.open_ledger(path)
    ledger.set_quota(Quota(tenant="blue"))
    config = Config(ledger=str(path), state_dir=tmp_path)
    options = ControllerOptions(interval_s=30, workers=1, status=tmp_path / "serve.json")
    process = ControllerProcess(config, options, lambda _: None)
    with process._life():
        assert within(10, lambda: bool(ledger.newest_note()))
    head = open_note(ledger.newest_note(), [trail_key(config.keys_dir).public])
    assert head.size == len(ledger.audit())
    values.close_all()

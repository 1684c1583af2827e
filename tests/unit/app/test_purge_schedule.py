"""Purges in `serve`: by one controller at a time, a limited number at once; failures are told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from tests.unit.store import values
from tests.unit.store.test_access import login, token
from vgpumgr.app import purge_schedule
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.app.purge_schedule import CLAIM, PurgeSchedule, scheduled_purges
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.model.errors import LedgerError

DAY = 86_400.0


class World:
    """A controller with a ledger, in a time of the test's."""

    def __init__(self, folder: Path) -> None:
        values.fleet(folder / "ledger.db")
        self.app = App(Config(ledger=str(folder / "ledger.db"), state_dir=folder))
        self.ledger = self.app.writable_ledger
        self.events: list[ControllerEvent] = []
        self.now = time.time()

    def schedule(self) -> PurgeSchedule:
        return PurgeSchedule(self.app, self.events.append, lambda: self.now)

    def purged(self) -> list[str]:
        self.schedule().round()
        told = [each.text for each in self.events]
        self.events.clear()
        return told


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with closing(made.app):
        yield made
    values.close_all()


def test_what_has_ended_for_long_goes_and_the_rest_stays(world: World) -> None:
    for number in range(4):
        world.ledger.begin_login(login(f"l-{number}", world.now + number), f"hash-{number}")
    world.ledger.add_api_token(token(expires_at=world.now + 100), "hash")
    world.now += 89 * DAY
    assert world.purged() == []
    world.now += 2 * DAY
    with mock.patch.object(purge_schedule, "AT_ONCE", 2):
        assert world.purged() == ["purged, as they have ended: 3 login sessions, 1 token"]
    assert world.purged() == []


def test_an_upload_that_was_sent_no_further_goes_and_the_trail_says_whose(world: World) -> None:
    uploads = world.app.uploads
    uploads.begin("ada", "cad.qcow2", 10, "0" * 64)
    assert world.purged() == []
    uploads._now = lambda: time.time() + 2 * DAY
    assert world.purged() == ["purged, as they have ended: 1 upload"]
    [record] = world.ledger.audit(event="image.upload-discarded")
    assert record.detail == "cad.qcow2 of ada: kept for too long"


def test_one_controller_purges_the_ledger_at_a_time(world: World, tmp_path: Path) -> None:
    other = values.open_ledger(tmp_path / "ledger.db")
    assert other.claim(CLAIM)
    world.ledger.add_api_token(token(expires_at=1.0), "hash")
    assert world.purged() == []
    other.release(CLAIM)
    assert world.purged() == ["purged, as they have ended: 1 token"]


def test_what_fails_is_told(world: World) -> None:
    failure = LedgerError("the ledger cannot be written", why="disk full")
    failing = mock.patch.object(type(world.ledger), "forget_tokens", side_effect=failure)
    with failing, scheduled_purges(world.app, world.events.append):
        until = time.monotonic() + 10
        while not world.events and time.monotonic() < until:
            time.sleep(0.01)
    [event] = world.events
    assert event.kind is EventKind.PURGE_FAILED and "disk full" in event.text

"""Scheduled backups: when one is due, by one process at a time, and what fails is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.store import values
from vgpumgr.app.backup_schedule import CLAIM, BackupSchedule, scheduled_backups
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config, load_config
from vgpumgr.app.stored_findings import backup_findings
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.model.errors import UsageError
from vgpumgr.model.ledger import Ledger

HOUR = 3600.0


class World:
    """A ledger, a folder for its backups, and time of our own."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "kept"
        self.folder.mkdir(mode=0o700)
        self.ledger = values.fleet(tmp_path / "ledger.db")
        self.config = Config(
            ledger=str(tmp_path / "ledger.db"),
            state_dir=tmp_path,
            backup_to=self.folder,
            backup_every=HOUR,
            backup_keep=3,
        )
        self.now = time.time()
        self.events: list[ControllerEvent] = []

    def schedule(self, ledger: Ledger | None = None) -> BackupSchedule:
        return BackupSchedule(
            ledger or self.ledger, self.config, self.folder, self.events.append, lambda: self.now
        )

    def told(self) -> list[EventKind]:
        told = [each.kind for each in self.events]
        self.events.clear()
        return told

    def found(self) -> dict[str, str]:
        app = App(self.config)
        try:
            return {each.text: str(each.mark) for each in backup_findings(app)}
        finally:
            app.close()

    def bad(self) -> list[str]:
        return [text for text, mark in self.found().items() if mark == "bad"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_one_is_made_at_once_and_then_every_interval(world: World) -> None:
    schedule = world.schedule()
    for later_s, made in ((0, 1), (HOUR - 5, 0), (10, 1), (HOUR - 5, 0)):
        world.now += later_s
        schedule.round()
        assert world.told() == [EventKind.BACKUP_MADE] * made
    world.schedule().round()  # a controller that begins anew finds the newest one in the folder
    assert world.told() == []


def test_one_process_backs_up_at_a_time(world: World, tmp_path: Path) -> None:
    other = values.open_ledger(tmp_path / "ledger.db")
    assert other.claim(CLAIM)
    world.schedule().round()
    assert list(world.folder.iterdir()) == []
    other.release(CLAIM)
    world.schedule().round()
    assert world.told() == [EventKind.BACKUP_MADE]
    values.close_all()


def test_a_backup_from_the_future_delays_none(world: World) -> None:
    world.now += 90 * HOUR
    world.schedule().round()
    world.now -= 90 * HOUR
    world.schedule().round()
    assert world.told() == [EventKind.BACKUP_MADE] * 2
    world.schedule().round()
    assert world.told() == []


def test_a_failure_is_told_once_and_again_when_it_is_overdue(world: World) -> None:
    away = world.folder.with_name("away")
    schedule = world.schedule()
    assert schedule.round()
    world.told()
    world.folder.rename(away)
    world.now += HOUR
    assert not schedule.round() and not schedule.round()
    [event] = world.events
    assert event.kind is EventKind.BACKUP_FAILED and "No such file" in event.text
    assert str(world.folder) in event.next
    world.told()
    world.now += HOUR + 1
    assert not schedule.round() and not schedule.round()
    assert world.told() == [EventKind.BACKUP_OVERDUE]
    away.rename(world.folder)
    assert schedule.round()
    assert world.told() == [EventKind.BACKUP_MADE]


def test_doctor_says_what_is_wrong_with_backups(world: World) -> None:
    assert world.bad() == ["there is no backup yet"]
    world.now -= 3 * HOUR
    world.schedule().round()
    assert world.bad() == ["the newest backup is 4 h old, one every 60 min is set"]
    world.now = time.time()
    world.schedule().round()
    found = world.found()
    assert world.bad() == []
    assert [text for text, mark in found.items() if mark == "warn"] == [
        f"{world.folder} is on the same disk as the ledger: who loses one loses both"
    ]
    world.folder.chmod(0o777)
    assert world.bad() == [f"others may remove backups from {world.folder}"]
    world.folder.rename(world.folder.with_name("away"))
    assert "cannot be read" in world.bad()[0]


def test_nothing_is_done_without_a_place(world: World, tmp_path: Path) -> None:
    config = Config(ledger=str(tmp_path / "ledger.db"), state_dir=tmp_path)
    with scheduled_backups(world.ledger, config, world.events.append):
        pass
    app = App(config)
    assert list(backup_findings(app)) == [] and world.events == []
    app.close()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("backup_every", "6"),
        ("backup_every", "30s"),
        ("backup_every", "0h"),
        ("backup_every", "9999d"),
        ("backup_keep", "0"),
        ("backup_keep", "two"),
        ("backup_to", "backups"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(UsageError, match=key):
        load_config({}, tmp_path, {key: text})


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "vgpumgr.yaml").write_text("backup: {every: 6h, to: /srv/backups, keep: 14}\n")
    found = load_config({}, tmp_path)
    assert (found.backup_every, found.backup_keep) == (6 * HOUR, 14)
    assert found.backup_to == Path("/srv/backups")

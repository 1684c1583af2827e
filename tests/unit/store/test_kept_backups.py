"""A folder of scheduled backups: whole, as many as asked for, and nobody else's file is touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from unittest import mock

import pytest

from tests.unit.store import values
from vgpumgr.model.errors import LedgerError
from vgpumgr.store.admin import backups, kept_backups, maintenance
from vgpumgr.store.database.ledger_file import publish

DAY = 86_400.0
LONG_AGO = 7200.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "kept"
    made.mkdir()
    return made


def inside(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def age(path: Path) -> None:
    then = path.lstat().st_mtime - LONG_AGO
    os.utime(path, (then, then))


def test_the_newest_are_kept_and_each_can_be_restored(url: str, folder: Path) -> None:
    fleet = values.fleet(url).fleet_id()
    made = [maintenance.keep_backup(url, folder, 2, n * DAY) for n in range(4)]
    kept = kept_backups.kept_backups(folder, fleet)
    assert [each.path for each in kept] == [each.path for each in made[2:]]
    assert inside(folder) == {n for e in kept for n in (e.path.name, f"{e.path.name}.sha256")}
    for each in kept:
        assert stat.S_IMODE(each.path.stat().st_mode) == 0o600
        assert each.path.stat().st_size == each.size
        with backups.opened_backup(each.path) as (_, facts):
            assert facts.fleet == fleet and facts.summed


def test_only_our_own_backups_are_removed(url: str, folder: Path) -> None:
    fleet = values.fleet(url).fleet_id()
    name = f"vgpumgr-{fleet}-19700101T000000Z"
    theirs = [
        folder / "ledger.bak",
        folder / f"vgpumgr-{'0' * 32}-19700101T000000Z",  # another fleet's
        folder / f"{name}.old",
    ]
    for each in theirs:
        each.write_text("mine")
    (folder / name).symlink_to(theirs[0])
    (folder / f"vgpumgr-{fleet}-19700101T000001Z").mkdir()
    before = inside(folder)
    for n in range(1, 4):
        made = maintenance.keep_backup(url, folder, 1, n * DAY)
    assert inside(folder) == before | {made.path.name, f"{made.path.name}.sha256"}
    assert all(each.read_text() == "mine" for each in theirs)


def test_another_users_file_is_not_removed(url: str, folder: Path) -> None:
    values.fleet(url)
    first = maintenance.keep_backup(url, folder, 1, DAY)
    with mock.patch("os.geteuid", lambda: 4242):
        maintenance.keep_backup(url, folder, 1, 2 * DAY)
    assert first.path.exists()


def test_one_that_cannot_be_restored_removes_none(url: str, folder: Path) -> None:
    values.fleet(url)
    maintenance.keep_backup(url, folder, 1, DAY)

    def damaged(made: Path, path: Path) -> bool:
        with made.open("r+b") as file:
            file.seek(200)
            file.write(b"\xff" * 50)
        return publish(made, path)

    before = inside(folder)
    with (
        mock.patch.object(backups, "publish", damaged),
        pytest.raises(LedgerError, match="is not the backup that was made"),
    ):
        maintenance.keep_backup(url, folder, 1, 2 * DAY)
    assert inside(folder) == before


@pytest.mark.parametrize("number", [28, 13], ids=["full", "denied"])
def test_what_cannot_be_published_leaves_nothing(url: str, folder: Path, number: int) -> None:
    values.fleet(url)
    maintenance.keep_backup(url, folder, 1, DAY)
    before = inside(folder)
    fault = OSError(number, os.strerror(number), str(folder))
    with (
        mock.patch.object(backups, "publish", side_effect=fault),
        pytest.raises(LedgerError, match="cannot be created") as told,
    ):
        maintenance.keep_backup(url, folder, 1, 2 * DAY)
    assert os.strerror(number) in told.value.why and inside(folder) == before


def test_a_folder_that_is_away_is_named_and_not_made(url: str, folder: Path) -> None:
    values.fleet(url)
    away = folder / "away"
    with pytest.raises(LedgerError, match="cannot be read") as told:
        maintenance.keep_backup(url, away, 3, DAY)
    assert told.value.why == "No such file or directory" and not away.exists()


def test_parts_of_a_killed_backup_are_removed_an_hour_later(url: str, folder: Path) -> None:
    fleet = values.fleet(url).fleet_id()
    part = folder / f".vgpumgr-{fleet}-abc"
    part.mkdir()
    (part / "ledger").write_text("half")
    name = f"vgpumgr-{fleet}-19700101T000000Z"
    sums = [folder / f"{name}.sha256", folder / f".{name}.sha256.new"]
    for each in sums:
        each.write_text("half")
    foreign = folder / ".backup-mine"
    foreign.mkdir()
    maintenance.keep_backup(url, folder, 3, DAY)
    assert part.exists() and all(each.exists() for each in sums), "it may still be written"
    for each in (part, foreign, *sums):
        age(each)
    maintenance.keep_backup(url, folder, 3, 2 * DAY)
    assert foreign.exists() and not part.exists() and not any(each.exists() for each in sums)

"""Backups of a VM that is off, and of one that runs: made, verified, found, deleted, due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, WAYS
from vgpumgr.model.vm_backup import BackupTarget, RetentionRules

_WAY = WAYS["mdev"]
_PLAIN = WAYS["no gpu"]
_HOSTS = tuple(replace(each, pools=("default", "backups")) for each in _WAY.hosts("h1"))
_TARGET = BackupTarget(name="vault", pool="backups")
_SCHEDULE = replace(
    _TARGET, vms=("desk",), every_s=86_400.0, keep=RetentionRules(last=1), freeze=True
)


def _made(place: Place) -> None:
    _WAY.enrol(place, "h1")
    place.apply(_WAY.desk(disks=(FRESH, FRESH), agent=True))
    place.app.writable_ledger.set_backup_target(_TARGET)


def _with_tpm(place: Place) -> None:
    _PLAIN.enrol(place, "h1")
    place.apply(_PLAIN.desk(disks=(FRESH,), tpm=True))
    place.app.writable_ledger.set_backup_target(_TARGET)


def _off(place: Place) -> None:
    place.engine.stop_vms(["desk"], force=True, timeout_s=5.0).raise_for_failure()


def _taken(place: Place) -> None:
    place.engine.back_up("desk")[0].raise_for_failure()


def _due(place: Place) -> None:
    place.app.writable_ledger.set_backup_target(_SCHEDULE)


def _chained(place: Place) -> None:
    place.app.writable_ledger.set_backup_target(replace(_TARGET, full_every=3))


def _lost(place: Place) -> None:
    place.app.writable_ledger.backup_lost(place.app.ledger.vm_backups()[0].id)


def _deleted_by_hand(place: Place) -> None:
    host = place.hosts.open(place.app.ledger.host("h1"))
    for each in host.storage.volumes("backups"):
        host.storage.delete("backups", each.name)


def _refusing(verb: str) -> Prepare:
    return lambda place: place.inject("h1", "refuse", verb, "EIO", "1")


def _scenario(operation: str, part: str, command: Command, *prepare: Prepare) -> Scenario:
    sure = not part.startswith("refused")
    return Scenario(
        operation=operation,
        part=part,
        hosts=_HOSTS,
        command=command,
        prepare=(_made, *prepare),
        sure=sure,
    )


def _scenarios() -> Iterator[Scenario]:
    take, drop = commands.back_up("desk"), commands.delete_backup("desk")
    yield _scenario("backup", "off", take, _off)
    yield _scenario("backup", "running", take)
    yield _scenario("backup", "frozen", commands.back_up("desk", freeze=True))
    since = commands.back_up("desk", there=1)
    yield _scenario("backup", "since another", since, _chained, _taken)
    yield _scenario("backup", "refused running", take, _refusing("domains.begin_backup"))
    yield _scenario("backup", "refused off", take, _off, _refusing("storage.create"))
    for operation, command, *prepare in (
        ("backup", take),
        ("restore", commands.restore("seat"), _taken),
    ):
        made = _scenario(operation, "tpm", command)
        yield replace(made, prepare=(_with_tpm, *prepare))
    yield _scenario("delete backup", "there", drop, _taken)
    yield _scenario("delete backup", "gone", drop, _taken, _deleted_by_hand)
    yield _scenario("delete backup", "refused", drop, _taken, _refusing("storage.delete"))
    yield _scenario("backup verify", "there", commands.verify_backup("desk"), _taken)
    yield _scenario("backup search", "lost", commands.search_backups, _taken, _lost)
    yield replace(_scenario("serve", "backup due", commands.serve, _due), ends=("again",))


SCENARIOS = tuple(_scenarios())

"""Snapshots of a VM that is off and of one that runs: taken, reverted to, deleted; a VM renamed,
and its disks grown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, WAYS

_WAY = WAYS["mdev"]
_DISKS = (FRESH, FRESH)


def _made(place: Place) -> None:
    _WAY.enrol(place, "h1")
    place.apply(_WAY.desk(disks=_DISKS, agent=True))


def _off(place: Place) -> None:
    place.engine.stop_vms(["desk"], force=True, timeout_s=5.0).raise_for_failure()


def _taken(*names: str) -> Prepare:
    def prepare(place: Place) -> None:
        for name in names:
            place.engine.take_snapshot("desk", name).raise_for_failure()

    return prepare


def _scenario(
    operation: str, part: str, command: Command, *prepare: Prepare, sure: bool = True
) -> Scenario:
    return Scenario(
        operation=operation,
        part=part,
        hosts=_WAY.hosts("h1"),
        command=command,
        prepare=(_made, *prepare),
        sure=sure,
    )


def _refusing(verb: str) -> Prepare:
    return lambda place: place.inject("h1", "refuse", verb, "EIO", "1")


def _scenarios() -> Iterator[Scenario]:
    take = commands.take_snapshot("desk", "s1")
    yield _scenario("snapshot", "off", take, _off)
    yield _scenario("snapshot", "running", take)
    yield _scenario("snapshot", "frozen", commands.take_snapshot("desk", "s1", freeze=True))
    yield _scenario("revert", "off", commands.revert("desk", "s1"), _off, _taken("s1"))
    back = commands.revert("desk", "s1", restart=True)
    yield _scenario("revert", "running", back, _taken("s1", "s2"))
    drop = commands.delete_snapshot("desk", "s1")
    yield _scenario("delete snapshot", "off", drop, _off, _taken("s1", "s2"))
    yield _scenario("delete snapshot", "running", drop, _taken("s1"))
    yield _scenario("rename", "off", commands.rename("desk", "seat"), _off, _taken("s1"))
    anew = commands.rename("desk", "seat", restart=True)
    yield _scenario("rename", "running", anew)
    larger = (replace(FRESH, size_bytes=2 * FRESH.size_bytes), FRESH)
    yield _scenario("grow", "running", commands.apply(_WAY.desk(disks=larger, agent=True)))
    for operation, command, verb in (
        ("snapshot", commands.take_snapshot("desk", "s2"), "domains.switch_disks"),
        ("revert", back, "domains.start"),
        ("delete snapshot", drop, "domains.pull_disk"),
        ("rename", anew, "domains.define"),
    ):
        refused = _refusing(verb)
        yield _scenario(operation, "refused", command, _taken("s1"), refused, sure=False)


SCENARIOS = tuple(_scenarios())

"""VMs that change in waves: one after the other, in one operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Place, Scenario
from tests.faults.scenarios.ways import FRESH, MDEV, WAYS, Way
from tests.simworld import host, vm
from vgpumgr.model.vm import VmSpec


def _desks(way: Way) -> list[VmSpec]:
    return [replace(way.desk(disks=(FRESH,)), name=f"desk-{n}") for n in (1, 2)]


def _of(part: str, way: Way) -> Iterator[Scenario]:
    desks = _desks(way)
    scene = Scenario(
        operation="roll",
        part=part,
        hosts=way.hosts("h1"),
        command=commands.roll(*(replace(each, vcpus=2) for each in desks)),
        prepare=(lambda place: way.enrol(place, "h1"), lambda place: place.apply(*desks)),
        ends=("again", "resume", "undo"),
        several=True,
    )
    yield scene
    pinned = [replace(each, pin_cpus=True) for each in desks]
    seats = replace(scene, operation="roll seats", command=commands.roll(*pinned))
    yield seats
    if part == "mdev":
        refused = (*scene.prepare, _refusing)
        yield replace(seats, operation="roll refused", prepare=refused, sure=False)


def _refusing(place: Place) -> None:
    """The first wave is undone: what waits is left as it is."""
    place.inject("h1", "refuse", "domains.start", "EIO", "1")


def _prune() -> Scenario:
    """Two replicas go, and the third changes."""
    desks = [vm(f"desk-{n:02d}", "T4-4Q", disks=(FRESH,)) for n in (1, 2, 3)]
    return Scenario(
        operation="prune",
        part="two of three",
        hosts=(host("T4", versions=MDEV),),
        command=commands.prune(replace(desks[0], vcpus=2), gone=("desk-02", "desk-03")),
        prepare=(lambda place: place.enrol("h1"), lambda place: place.apply(*desks)),
        ends=("again",),
        several=True,
    )


SCENARIOS = (_prune(), *_of("mdev", WAYS["mdev"]), *_of("pci-vf", WAYS["pci-vf"]))

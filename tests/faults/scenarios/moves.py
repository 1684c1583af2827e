"""VMs moved from one host to another: running, stopped for it, and off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, MDEV, SEED, WAYS, Way
from tests.simworld import host, vm

# A VM that is off takes the same steps but two.
OFF = ("no gpu", "mdev", "vfio-vf in MIG", "pci-vf")


def _made(way: Way) -> Prepare:
    def prepare(place: Place) -> None:
        way.enrol(place, "h1", "h2")
        place.cordon("h2", on=True)
        desk = way.desk(disks=(FRESH,), cloud_init=SEED, autostart=True)
        place.apply(replace(desk, tpm=not desk.gpus))
        place.cordon("h2", on=False)

    return prepare


def _off(place: Place) -> None:
    place.engine.stop_vms(["desk"], force=True, timeout_s=5.0).raise_for_failure()


def _of(part: str, way: Way) -> Iterator[Scenario]:

    def scenario(operation: str, command: Command, *prepare: Prepare) -> Scenario:
        return Scenario(
            operation=operation,
            part=part,
            hosts=way.hosts("h1", "h2"),
            command=command,
            prepare=(_made(way), *prepare),
        )

    if way.live:
        yield scenario("migrate live", commands.migrate("desk", "h2"))
    yield scenario("migrate cold", commands.migrate("desk", "h2", cold=True))
    if part in OFF:
        yield scenario("migrate off", commands.migrate("desk", "h2"), _off)


# Within a host the devices are made and taken back as anywhere: one of each kind will do.
WITHIN = ("mdev", "mdev in MIG", "vfio-vf", "vfio-vf in MIG", "pci-vf")


def _alone(way: Way) -> Prepare:
    def prepare(place: Place) -> None:
        way.enrol(place, "h1")
        place.apply(way.desk(disks=(FRESH,), cloud_init=SEED, autostart=True))

    return prepare


def _within(part: str, way: Way) -> Iterator[Scenario]:
    scene = Scenario(
        operation="reseat",
        part=part,
        hosts=way.hosts("h1"),
        command=commands.reseat("desk"),
        prepare=(_alone(way),),
    )
    yield scene
    larger = (replace(FRESH, size_bytes=2 * FRESH.size_bytes), FRESH)
    other = replace(way.desk(disks=larger, cloud_init=SEED, autostart=False), pin_cpus=True)
    yield replace(scene, operation="change seat", command=commands.apply(other, restart=True))
    if part == "mdev":
        more = way.desk(disks=larger, cloud_init=SEED, autostart=True)
        yield replace(scene, operation="change disks", command=commands.apply(more, restart=True))
    if part in OFF:
        yield replace(scene, operation="reseat off", prepare=(_alone(way), _off))


def _own_place() -> Scenario:
    """Only its own part is in the way of the larger one: it goes first."""
    spec = vm("desk", "T4-4Q", disks=(FRESH,), autostart=True)
    larger = replace(spec, gpus=vm("desk", "T4-16Q").gpus)
    return Scenario(
        operation="change seat",
        part="own place",
        hosts=(host("T4", versions=MDEV),),
        command=commands.apply(larger, restart=True),
        prepare=(lambda place: place.enrol("h1"), lambda place: place.apply(spec)),
    )


def _balance() -> Scenario:
    """h1 is hot with both of its VMs: one goes to h2."""
    way = WAYS["no gpu"]

    def prepare(place: Place) -> None:
        way.enrol(place, "h1", "h2")
        place.cordon("h2", on=True)
        place.apply(way.desk(disks=(FRESH,)), replace(way.desk(), name="other"))
        place.cordon("h2", on=False)

    return Scenario(
        operation="balance",
        part="two hosts",
        hosts=way.hosts("h1", "h2"),
        command=commands.balance(2),
        prepare=(prepare,),
    )


SCENARIOS = (
    _own_place(),
    _balance(),
    *(scenario for part, way in WAYS.items() for scenario in _of(part, way)),
    *(scenario for part in WITHIN for scenario in _within(part, WAYS[part])),
)

"""VMs that wait, start, make room, end and come back; quotas set and lifted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import COPY, FRESH, WAYS, Way
from tests.simworld import vm
from vgpumgr.model.quota import Quota
from vgpumgr.model.vm import Terms, VmSpec
from vgpumgr.model.vm_devices import DiskSpec

TYPICAL = ("no gpu", "passthrough", "fabric partition", "mdev", "vfio-vf in MIG", "pci-vf")
# Of the two GPUs that a host has, the one without the keeper.
EMPTIER = "0000:43:00.0"
HIGH, SPOT = Terms(priority=100), Terms(spot=True)


def _scenario(
    operation: str, part: str, way: Way, command: Command, *prepare: Prepare, **fields: object
) -> Scenario:
    return Scenario(
        operation=operation,
        part=part,
        hosts=way.hosts("h1"),
        command=command,
        prepare=(lambda place: way.enrol(place, "h1"), *prepare),
        **fields,  # type: ignore[arg-type]
    )


def _made(*specs: VmSpec) -> Prepare:
    return lambda place: place.apply(*specs)


def _shelved(place: Place) -> None:
    commands.shelve("desk")(place.app)


def _refusing(place: Place) -> None:
    place.inject("h1", "refuse", "domains.start", "EIO", "1")


def _one_gpu_refusing(place: Place) -> None:
    """The emptier one, which is chosen first: the keeper is on the other."""
    place.inject("h1", "gpu", EMPTIER, "fail", "create", "1000")


def _on_and_off_the_shelf() -> Iterator[Scenario]:
    start = commands.start("desk")
    for part in TYPICAL:
        way = WAYS[part]
        made = _made(way.desk(disks=(FRESH,), autostart=True))
        yield _scenario("shelve", part, way, commands.shelve("desk"), made)
        yield _scenario("unshelve", part, way, start, made, _shelved)
        if part == "mdev":
            refused = (made, _shelved, _refusing)
            yield _scenario("unshelve refused", part, way, start, *refused, sure=False)
            beside = (made, _shelved, _one_gpu_refusing)
            yield _scenario("unshelve", "another GPU", way, start, *beside)
            yield _scenario("delete", "shelved", way, commands.delete("desk"), made, _shelved)


_MDEV = WAYS["mdev"]
# What the keeper leaves of the host: there is room for one at a time.
_WHOLE = "T4-16Q"
_AGAIN = {"ends": ("again",)}


COPIED = replace(COPY, image="nobody-has.qcow2")


def _asking(name: str, terms: Terms, disk: DiskSpec = FRESH) -> VmSpec:
    return vm(name, _WHOLE, disks=(disk,), queue=terms)


def _powered_off(place: Place) -> None:
    place.hosts.fleet.hosts["h1"].domains.shutdown("desk")


def _worked() -> Iterator[Scenario]:
    """``serve`` itself, killed while it works the queue of a host that it has seen whole."""

    def settled(place: Place) -> None:
        commands.serve(place.app)

    spot, urgent = _made(_asking("desk", SPOT)), _made(_asking("urgent", HIGH))
    later = _made(_asking("later", Terms(after=("desk",))))
    for part, prepare in {
        "preempts": (spot, settled, urgent),
        "ends and starts": (spot, settled, later, _powered_off),
        "refused": (spot, settled, _made(_asking("lost", HIGH, COPIED)), _desk_deleted),
        "reconnects": (spot, settled, urgent, settled, _urgent_deleted),
    }.items():
        yield _scenario("serve", part, _MDEV, commands.serve, *prepare, **_AGAIN)


def _waits_beside_a_refusing_gpu() -> Scenario:
    asked = _made(replace(_MDEV.desk(disks=(FRESH,)), queue=Terms()))

    def waiting(place: Place) -> None:
        place.cordon("h1", on=True)
        asked(place)
        place.cordon("h1", on=False)

    prepare = (waiting, _one_gpu_refusing)
    return _scenario("serve", "starts elsewhere", _MDEV, commands.serve, *prepare, **_AGAIN)


def _desk_deleted(place: Place) -> None:
    commands.delete("desk")(place.app)


def _urgent_deleted(place: Place) -> None:
    commands.delete("urgent")(place.app)


def _asked_for() -> Iterator[Scenario]:
    taken, waits = _made(vm("desk", _WHOLE, disks=(FRESH,))), _asking("urgent", HIGH)
    yield _scenario("queue", "waits", _MDEV, commands.apply(waits), taken, **_AGAIN)
    cancelled = commands.cancel("urgent")
    yield _scenario(
        "queue", "cancelled", _MDEV, cancelled, taken, _made(waits), **_AGAIN, sure=False
    )


def _limited() -> Iterator[Scenario]:
    quota = Quota(tenant="default", vms=9)
    yield _scenario("quota", "set", _MDEV, commands.set_quota(quota), **_AGAIN)
    there = commands.set_quota(quota)
    lifted = commands.delete_quota("default")
    yield _scenario(
        "quota", "deleted", _MDEV, lifted, lambda place: there(place.app), **_AGAIN, sure=False
    )


SCENARIOS = (
    *_on_and_off_the_shelf(),
    _waits_beside_a_refusing_gpu(),
    *_worked(),
    *_asked_for(),
    *_limited(),
)

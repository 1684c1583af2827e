"""Hosts emptied, closed, lost and found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import FENCE, Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, WAYS, Way
from tests.simworld import vm
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm_devices import DiskSpec

_NAS = (DiskSpec(pool="nas", size_bytes=1 << 20),)
TWO = WAYS["mdev"].hosts("h1", "h2")
# Each is as any other where a VM is made anew, but for what its devices need.
EVACUATED = ("no gpu", "passthrough", "vfio-vf", "vfio-vf in MIG", "pci-vf")


def sharing(hosts: tuple[SimHost, ...]) -> tuple[SimHost, ...]:
    """The same hosts, with storage that all of them see."""
    return tuple(replace(h, pools=("default", "nas"), shared_pools=("nas",)) for h in hosts)


def on_h1(*vms: str) -> Prepare:
    """VMs on the first of two hosts, their disks on storage that both see if there is any."""

    def prepare(place: Place) -> None:
        place.enrol("h1", "h2")
        place.cordon("h2", on=True)
        disks = _NAS if place.hosts.fleet.hosts["h1"].host.shared_pools else (FRESH,)
        place.apply(*(vm(name, "T4-4Q", disks=disks, autostart=True) for name in vms))
        place.cordon("h2", on=False)

    return prepare


def _way_on_h1(way: Way) -> Prepare:
    """The same of another way; at its boot the host brings back what it has claims of."""

    def prepare(place: Place) -> None:
        place.enrol("h1", "h2")
        place.hosts.fleet.host("h1").install()
        place.cut(way.layout, "h1", "h2")
        place.cordon("h2", on=True)
        place.apply(way.desk(disks=_NAS, autostart=True))
        place.cordon("h2", on=False)

    return prepare


def fenced(place: Place) -> None:
    """It can be proven off."""
    place.engine.fence("h1", FENCE).raise_for_failure()


def lost(place: Place) -> None:
    """Nobody reaches it."""
    place.inject("h1", "unreachable")


def back(place: Place) -> None:
    """After its VMs were made anew elsewhere it is switched on again."""
    place.engine.evacuate("h1")[1].raise_for_failure()
    place.inject("h1", "clear")
    place.inject("h1", "on")


def _off(place: Place) -> None:
    place.engine.stop_vms(["desk", "other"], force=True, timeout_s=5.0).raise_for_failure()
    place.hosts.fleet.hosts["h1"].domains.destroy("stranger")


def _draining(place: Place) -> None:
    place.cut_off(commands.drain("h1"), "after update host")


def _of_host(operation: str, command: Command, *prepare: Prepare, **fields: bool) -> Scenario:
    return Scenario(
        operation=operation, part="host", hosts=TWO, command=command, prepare=prepare, **fields
    )


def _marked() -> Iterator[Scenario]:
    two = on_h1("desk", "other")
    yield _of_host("fence", commands.fence("h1", FENCE), two, several=True)
    yield _of_host("undrain", commands.undrain("h1"), two, _draining, several=True)
    yield _of_host("enter maintenance", commands.enter_maintenance("h1"), two, _off, several=True)


def _drained() -> Iterator[Scenario]:
    two = on_h1("desk", "other")
    yield _of_host("drain", commands.drain("h1"), two, several=True)
    yield _of_host("drain cold", commands.drain("h1", cold=True), two, several=True)


def _one_each(place: Place) -> None:
    place.enrol("h1", "h2")
    for name, other in (("desk", "h2"), ("other", "h1")):
        place.cordon(other, on=True)
        place.apply(vm(name, "T4-4Q", disks=(FRESH,), autostart=True))
        place.cordon(other, on=False)


def _defragmented() -> Scenario:
    """A GPU that was not empty is."""
    gpus = sum(board.count for host in TWO for board in host.boards)
    return _of_host("defrag", commands.defrag(gpus - 1), _one_each, several=True)


def _evacuated(part: str, hosts: tuple[SimHost, ...], made: Prepare, away: Prepare) -> Scenario:
    return Scenario(
        operation="evacuate",
        part=part,
        hosts=sharing(hosts),
        command=commands.evacuate("h1"),
        prepare=(made, fenced, away),
        several=True,
    )


def _returned(scenario: Scenario) -> Scenario:
    """On a host in maintenance only its operator acts; ``serve`` ends what he began."""
    return replace(
        scenario,
        operation="leave maintenance",
        command=commands.leave_maintenance("h1"),
        prepare=(*scenario.prepare, back),
        ends=("again", "resume", "undo"),
    )


def _lost() -> Iterator[Scenario]:
    two = _evacuated("host", TWO, on_h1("desk", "other"), lost)
    one = _evacuated("host", TWO, on_h1("desk"), lost)
    yield replace(two)
    yield replace(_returned(one))
    for part in EVACUATED:
        way = WAYS[part]
        gone = _evacuated(part, way.hosts("h1", "h2"), _way_on_h1(way), lost)
        yield gone
        yield _returned(gone)


SCENARIOS = (*_marked(), *_drained(), _defragmented(), *_lost())

"""VMs made, changed, switched on and off, and deleted, through every framework."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import COPY, FRESH, OVERLAY, SEED, WAYS, Way
from tests.simworld import host, vm
from vgpumgr.model.domain import NicTuning
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.port_rules import PortFilter, PortRule
from vgpumgr.model.sim_fleet import SimHost, SimNic
from vgpumgr.model.vm_devices import NicSpec

DISKS = {"disks": (FRESH,), "autostart": True}
# For steps that are one framework's as another's.
TYPICAL = ("passthrough", "mdev", "vfio-vf in MIG", "pci-vf")
LOST_BY_REBOOT = ("no gpu", "passthrough", "fabric partition", "mdev")


def _scenario(
    operation: str, part: str, command: Command, *prepare: Prepare, **fields: bool
) -> Scenario:
    way = WAYS[part]
    return Scenario(
        operation=operation,
        part=part,
        hosts=way.hosts("h1"),
        command=command,
        prepare=(lambda place: way.enrol(place, "h1"), *prepare),
        **fields,
    )


def _made(way: Way) -> Prepare:
    return lambda place: place.apply(way.desk(**DISKS))


def _stopped(place: Place) -> None:
    place.engine.stop_vms(["desk"], force=True, timeout_s=5.0).raise_for_failure()


def _rebooted(place: Place) -> None:
    place.inject("h1", "reboot")
    place.hosts.fleet.hosts["h1"].domains.start("stranger")
    place.engine.start(["keeper"]).raise_for_failure()


def _refusing(place: Place) -> None:
    place.inject("h1", "refuse", "domains.start", "EIO", "1")


def _of(part: str, way: Way) -> Iterator[Scenario]:
    made = _made(way)
    whole = way.desk(disks=(FRESH, OVERLAY), cloud_init=SEED, autostart=True)
    create, start = commands.apply(whole), commands.start("desk")
    yield _scenario("create", part, create)
    yield _scenario("delete", part, commands.delete("desk"), made)
    yield _scenario("stop", part, commands.stop("desk"), made)
    yield _scenario("start", part, start, made, _stopped)
    if part in LOST_BY_REBOOT:
        yield _scenario("start after reboot", part, start, made, _rebooted)
    if part in TYPICAL:
        grown = commands.apply(replace(way.desk(**DISKS), vcpus=2), restart=True)
        yield _scenario("create refused", part, create, _refusing, sure=False)
        yield _scenario("change", part, grown, made)
    if part == "mdev":
        kept = commands.delete("desk", keep_disks=True)
        yield _scenario("delete keeping disks", part, kept, made)
        yield _scenario("reboot", part, commands.reboot("desk"), made)
        yield _scenario("reboot by force", part, commands.reboot("desk", force=True), made)


def _bulk() -> Scenario:
    """Several VMs over two hosts are one operation."""
    specs = [vm(f"desk-{n}", "T4-4Q", disks=(FRESH,)) for n in range(3)]
    return Scenario(
        operation="create",
        part="three on two hosts",
        hosts=(host("T4"), host("T4", name="h2")),
        command=commands.apply(*specs, vm("desk-whole", "T4-8Q")),
        prepare=(lambda place: place.enrol("h1", "h2"),),
        several=True,
    )


def _elsewhere() -> Scenario:
    """One host refuses every part: the operation goes on at the other."""
    way = WAYS["mdev"]
    return Scenario(
        operation="create",
        part="elsewhere",
        hosts=way.hosts("h1", "h2"),
        command=commands.apply(way.desk(disks=(FRESH,), autostart=True)),
        prepare=(
            lambda place: way.enrol(place, "h1", "h2"),
            lambda place: place.inject("h1", "refuse", "mdev_create", "EIO", "1000"),
        ),
    )


def _too_large() -> Scenario:
    """There is no such room anywhere: the request is kept for history, and that is all."""
    specs = [vm(f"desk-{n}", "T4-16Q", disks=(FRESH,)) for n in range(2)]
    refused = _scenario("create", "mdev", commands.apply(*specs))
    return replace(refused, part="no room", ends=("again",), sure=False)


def _copied() -> Scenario:
    way = WAYS["no gpu"]
    return _scenario("create", "no gpu", commands.apply(way.desk(disks=(COPY,))))


_RULES = PortFilter(True, (PortRule.parse("tcp/22"),))
_NIC = NicSpec(network="default", tuning=NicTuning(filter=_RULES.name))
_VF = NicSpec(sriov=SriovNic(physical="ens1f0", vlan=20, spoof_check=False))
_PLAIN, _WITH_VFS = host(), host("T4", nics=(SimNic(name="ens1f0", vfs=2),))


def _with_nic(part: str, its_host: SimHost, nic: NicSpec) -> Iterator[Scenario]:
    """What a NIC of a VM takes is made and claimed with it, and goes with it."""
    way = WAYS["no gpu"]
    desk = way.desk(nics=(nic,))

    def scenario(operation: str, command: Command, *prepare: Prepare) -> Scenario:
        return Scenario(
            operation=operation,
            part=part,
            hosts=(its_host,),
            command=command,
            prepare=(lambda place: way.enrol(place, "h1"), *prepare),
        )

    def made(place: Place) -> None:
        place.apply(desk)

    yield scenario("create", commands.apply(desk))
    yield scenario("delete", commands.delete("desk"), made)
    yield scenario("change", commands.apply(replace(desk, nics=()), restart=True), made)
    yield scenario("rename", commands.rename("desk", "seat", restart=True), made)


SCENARIOS = (
    *(scenario for part, way in WAYS.items() for scenario in _of(part, way)),
    replace(_copied(), part="copied disk"),
    *_with_nic("own filter", _PLAIN, _NIC),
    *_with_nic("sriov nic", _WITH_VFS, _VF),
    _bulk(),
    _elsewhere(),
    _too_large(),
)

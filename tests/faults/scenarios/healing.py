"""What differs, by somebody's hand or by a reboot, put right: every kind that ``heal`` ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.contract.simulated.host import SimMachine
from tests.faults import commands
from tests.faults.scenario import Place, Prepare, Scenario
from tests.faults.scenarios.emptied import TWO, on_h1
from tests.faults.scenarios.ways import FRESH, WAYS
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.model.drift import DriftKind as Kind
from vgpumgr.sim.drivers.vgpu_files import PLUGIN_ENDS_S
from vgpumgr.sim.simulated_host import SimulatedHost

_CLAIMS = "/var/lib/vgpumgr/claims"
Change = Callable[[Place, SimulatedHost], None]


def _healed(part: str, kinds: set[Kind], change: Change, *only: Kind, **fields: object) -> Scenario:
    """``kinds`` are what ``heal`` then has to do; ``only`` what it is asked to do."""

    def by_hand(place: Place) -> None:
        change(place, place.hosts.fleet.hosts["h1"])
        found = {each.drift.kind for each in place.engine.heal_plan(DriftSelection()).to_do}
        if found != kinds:
            raise AssertionError(f"{part}: {sorted(found)} instead of {sorted(kinds)}")

    made = {"hosts": TWO, "prepare": (on_h1("desk", "other"),)} | fields
    prepare = (*made.pop("prepare"), by_hand)  # type: ignore[misc]
    return Scenario(
        operation="heal",
        part=part,
        command=commands.heal(*only),
        prepare=prepare,
        heals=frozenset(kinds),
        **made,  # type: ignore[arg-type]
    )


def _unmade(place: Place, host: SimulatedHost) -> None:
    """Off, undefined, its mdev gone and the claim with it."""
    device = place.held("desk").device
    host.domains.destroy("desk")
    host.system.wait(PLUGIN_ENDS_S)
    host.system.write(f"/sys/bus/mdev/devices/{device}/remove", "1")
    host.kernel.remove(f"{_CLAIMS}/mdev-{device}.json")
    host.domains.undefine("desk")


def _unclaimed(place: Place, host: SimulatedHost) -> None:
    host.kernel.remove(f"{_CLAIMS}/mdev-{place.held('desk').device}.json")


def _transient(_: Place, host: SimulatedHost) -> None:
    host.domains.undefine("desk")


def _unmarked(_: Place, host: SimulatedHost) -> None:
    xml = host.domains.xml("desk")
    host.domains.define(re.sub('fleet="[^"]+"', 'fleet="mine"', xml))


def _changed(_: Place, host: SimulatedHost) -> None:
    host.domains.set_autostart("desk", on=False)
    host.domains.destroy("desk")


def _came_back(place: Place, host: SimulatedHost) -> None:
    """The host was restored from an old image: a deleted VM's domain is there again."""
    xml = host.domains.xml("desk")
    place.engine.delete(["desk"], keep_disks=False, force=True).raise_for_failure()
    host.domains.define(xml)


def _claimed_again(place: Place, _: SimulatedHost) -> None:
    """The same, and it has its mdev and the claim of it."""
    held = place.held("desk")
    place.engine.delete(["desk"], keep_disks=False, force=True).raise_for_failure()
    claim = {"allocation": held.id, "generation": held.generation, "vm": held.vm}
    made = {"parent": held.parent, "type": held.type_id, "uuid": held.device, "claim": claim}
    place.helper("h1").call("mdev_create", made)


def _twice(place: Place, host: SimulatedHost) -> None:
    """Somebody defined it on the other host, too."""
    place.hosts.fleet.hosts["h2"].domains.define(host.domains.xml("desk"))


def _orphaned(place: Place, host: SimulatedHost) -> None:
    """Nothing of it is left."""
    _unmade(place, host)
    for pool, volume in place.app.ledger.vm("desk").volumes:
        host.storage.delete(pool, volume)


def _deletion_cut(place: Place, _: SimulatedHost) -> None:
    place.cut_off(commands.delete("desk"), "after delete ReleaseDevice intent")


def _gpu_lost(place: Place, _: SimulatedHost) -> None:
    """The one that nobody is on."""
    used = {each.gpu for each in place.app.ledger.allocations()}
    free = next(each for each in place.app.ledger.gpus("h1") if each.id not in used)
    place.inject("h1", "gpu", free.facts.device, "xid", "79")


def _rebound(place: Place, host: SimulatedHost) -> None:
    """Its GPU was given back to the host's own driver."""
    address, root = place.held("desk").device, SimMachine(host)
    host.domains.destroy("desk")
    root.write(f"/sys/bus/pci/devices/{address}/driver_override", "\n")
    root.write(f"/sys/bus/pci/devices/{address}/driver/unbind", address)
    root.write("/sys/bus/pci/drivers_probe", address)


def _rebooted(place: Place, host: SimulatedHost) -> None:
    place.inject("h1", "reboot")
    host.domains.start("stranger")
    while place.engine.refresh().facts["h1"].unknown:  # its Fabric Manager takes a while
        host.system.wait(1.0)


def _of(part: str) -> dict[str, object]:
    way = WAYS[part]
    made: Prepare = lambda place: place.apply(way.desk(disks=(FRESH,), autostart=False))  # noqa: E731
    return {"hosts": way.hosts("h1"), "prepare": (lambda place: way.enrol(place, "h1"), made)}


def _after_reboot(part: str, *kinds: Kind) -> Scenario:
    """Layouts are one operation, VMs another."""
    return _healed(f"rebooted {part}", {Kind.POWER, *kinds}, _rebooted, several=True, **_of(part))


_MISSING = {Kind.DEVICE_MISSING, Kind.CLAIM_MISSING}
_UNCUT = (Kind.DEVICE_MISSING, Kind.LAYOUT)

_HEALED = (
    _healed("nothing but disks", {Kind.DOMAIN_MISSING, *_MISSING}, _unmade),
    _healed("no claim", {Kind.CLAIM_MISSING}, _unclaimed),
    _healed("no definition", {Kind.DOMAIN_TRANSIENT}, _transient),
    _healed("other mark", {Kind.MARK}, _unmarked),
    _healed("definition and power", {Kind.DEFINITION, Kind.POWER}, _changed),
    _healed("domain of a deleted VM", {Kind.DOMAIN_LEFTOVER}, _came_back),
    _healed("claim of a deleted VM", {Kind.CLAIM_LEFTOVER}, _claimed_again),
    _healed("domain on another host", {Kind.DOMAIN_ELSEWHERE}, _twice),
    _healed("deletion that was aborted", {Kind.UNFINISHED}, _deletion_cut),
    _healed("lost GPU", {Kind.GPU_LOST}, _gpu_lost, prepare=(on_h1("desk"),)),
    # The VM stays in the ledger: only its operator can say that it is no more.
    _healed("orphan", _MISSING, _orphaned, *_MISSING, excused=("I6 lost", "I6 disk lost")),
    _healed("other driver", {Kind.POWER, Kind.DEVICE_DRIVER}, _rebound, **_of("passthrough")),
    _after_reboot("pci-vf", *_UNCUT),
    _after_reboot("vfio-vf in MIG", *_UNCUT, Kind.INSTANCE_MISSING),
    _after_reboot("fabric partition", Kind.DEVICE_DRIVER, Kind.PARTITION_INACTIVE),
)


def _lifted() -> Scenario:
    def well_again(place: Place) -> None:
        place.engine.heal(DriftSelection(kinds=frozenset({Kind.GPU_LOST})))
        place.inject("h1", "clear")

    lost = next(each for each in _HEALED if each.part == "lost GPU")
    prepare = (*lost.prepare, well_again)
    ends = ("again", "serve")
    return replace(
        lost, operation="lift", part="quarantine", command=commands.lift, prepare=prepare, ends=ends
    )


SCENARIOS = (*_HEALED, _lifted())

"""Hosts emptied, fenced, lost and found; what differs healed; what others made adopted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import FENCE, Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, WAYS
from tests.simworld import NEW, host, vm
from tests.unit.engine.foreign import domain, mdev_hostdev
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.vm import DiskSpec
from vgpumgr.sim.drivers.vgpu_files import PLUGIN_ENDS_S
from vgpumgr.sim.host import SimulatedHost

_NAS = (DiskSpec(pool="nas", size_bytes=1 << 20),)
_FOREIGN = "11111111-2222-3333-4444-555555555555"
_MDEV = WAYS["mdev"]
_TWO = _MDEV.hosts("h1", "h2")
_SHARING = tuple(replace(each, pools=("default", "nas"), shared_pools=("nas",)) for each in _TWO)


def _on_h1(*vms: str) -> Prepare:
    """VMs on the first of two hosts, their disks on storage that both see if there is any."""

    def prepare(place: Place) -> None:
        place.enrol("h1", "h2")
        place.cordon("h2", on=True)
        disks = _NAS if place.hosts.fleet.hosts["h1"].host.shared_pools else (FRESH,)
        place.apply(*(vm(name, "T4-4Q", disks=disks, autostart=True) for name in vms))
        place.cordon("h2", on=False)

    return prepare


def _fenced(place: Place) -> None:
    place.engine.fence("h1", FENCE).raise_for_failure()


def _lost(place: Place) -> None:
    place.inject("h1", "unreachable")


def _evacuated(place: Place) -> None:
    place.engine.evacuate("h1")[1].raise_for_failure()
    place.inject("h1", "clear")
    place.inject("h1", "on")


def _of_host(part: str, command: Command, *prepare: Prepare, **fields: bool) -> Scenario:
    return Scenario(
        operation=part,
        part="host",
        hosts=_SHARING if part in {"evacuate", "leave maintenance"} else _TWO,
        command=command,
        prepare=prepare,
        **fields,
    )


def _hosts() -> tuple[Scenario, ...]:
    two = _on_h1("desk", "other")
    lost, returned = (two, _fenced, _lost), (_on_h1("desk"), _fenced, _lost, _evacuated)
    return (
        _of_host("drain", commands.drain("h1"), two, several=True),
        _of_host("drain cold", commands.drain("h1", cold=True), two, several=True),
        _of_host("fence", commands.fence("h1", FENCE), two, several=True, first=True),
        _of_host("evacuate", commands.evacuate("h1"), *lost, several=True, first=True),
        # On a host in maintenance only its operator acts, never ``serve``.
        replace(
            _of_host(
                "leave maintenance",
                commands.leave_maintenance("h1"),
                *returned,
                several=True,
                first=True,
            ),
            ends=("again", "resume", "undo"),
        ),
    )


Change = Callable[[Place, SimulatedHost], None]


def _healed(part: str, change: Change, *kinds: DriftKind, **fields: bool) -> Scenario:
    def by_hand(place: Place) -> None:
        change(place, place.hosts.fleet.hosts["h1"])

    return Scenario(
        operation="heal",
        part=part,
        hosts=_TWO,
        command=commands.heal(*kinds),
        prepare=(_on_h1("desk", "other"), by_hand),
        **fields,
    )


def _unmade(place: Place, host: SimulatedHost) -> None:
    """Off, undefined, its mdev gone and the claim with it."""
    device = place.held("desk").device
    host.domains.destroy("desk")
    host.system.wait(PLUGIN_ENDS_S)
    host.system.write(f"/sys/bus/mdev/devices/{device}/remove", "1")
    host.kernel.remove(f"/var/lib/vgpumgr/claims/mdev-{device}.json")
    host.domains.undefine("desk")


def _unclaimed(place: Place, host: SimulatedHost) -> None:
    host.kernel.remove(f"/var/lib/vgpumgr/claims/mdev-{place.held('desk').device}.json")


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


def _orphaned(place: Place, host: SimulatedHost) -> None:
    """Nothing of it is left."""
    _unmade(place, host)
    for pool, volume in place.app.ledger.vm("desk").volumes:
        host.storage.delete(pool, volume)


def _foreign(place: Place) -> None:
    """A running domain that somebody else made, with an mdev."""
    place.enrol("h1")
    place.apply(vm("keeper", "T4-4Q", disks=(FRESH,)))
    host = place.hosts.fleet.hosts["h1"]
    held = place.held("keeper")
    types = f"/sys/class/mdev_bus/{held.parent}/mdev_supported_types/{held.type_id}"
    host.system.write(f"{types}/create", _FOREIGN)
    host.domains.define(domain("desk", mdev_hostdev(_FOREIGN)))
    host.domains.start("desk")


SCENARIOS = (
    *_hosts(),
    _healed("nothing but disks", _unmade, first=True),
    _healed("no claim", _unclaimed, first=True),
    _healed("no definition", _transient, first=True),
    _healed("other mark", _unmarked, first=True),
    _healed("definition and power", _changed, first=True),
    _healed("domain of a deleted VM", _came_back, first=True),
    # The VM stays in the ledger: only its operator can say that it is no more.
    replace(
        _healed("orphan", _orphaned, DriftKind.DEVICE_MISSING, DriftKind.CLAIM_MISSING, first=True),
        excused=("I6 lost",),
    ),
    Scenario(
        operation="adopt",
        part="mdev",
        hosts=(host("T4", versions=NEW),),
        command=commands.adopt("h1", "desk"),
        prepare=(_foreign,),
        first=True,
    ),
)

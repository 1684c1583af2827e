"""``serve`` itself, killed while it brings back, goes on with, or moves away."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios import emptied, layouts, moves, vms
from tests.faults.scenarios.ways import FRESH, WAYS, Way

# A boot takes other things from each of these.
REBOOTED = ("passthrough", "fabric partition", "mdev", "mdev on VF", "vfio-vf in MIG", "pci-vf")
# An operation, and the words of the point at which its worker died.
CUT = {
    "create/vfio-vf-in-MIG": "after create DefineDomain done",
    "delete/mdev": "after delete UndefineDomain done",
    "change/mdev": "after change StopDomain done",
    "migrate-cold/mdev": "after migrate StartMoved done",
    "layout-up/all-parts": "after layout ChangePart:vfs intent",
    "evacuate/host": "after evacuate RealiseDevice done",
}
_KNOWN = {each.name: each for room in (vms, moves, layouts, emptied) for each in room.SCENARIOS}


def _turn(part: str, scenario: Scenario, *prepare: Prepare) -> Scenario:
    """The hosts of another scenario, as these leave them."""
    return Scenario(
        operation="serve",
        part=part,
        hosts=scenario.hosts,
        command=commands.serve,
        prepare=prepare,
        ends=("again",),
    )


def _rebooted(way: Way) -> tuple[Prepare, ...]:
    """Seen whole by a controller before, so that it knows a boot when it sees one."""

    def made(place: Place) -> None:
        way.enrol(place, "h1")
        place.apply(way.desk(disks=(FRESH,)))
        commands.serve(place.app)
        place.inject("h1", "reboot")
        host = place.hosts.fleet.hosts["h1"]
        host.domains.start("stranger")
        while place.hosts.open(place.app.ledger.host("h1")).probe().unknown:
            host.system.wait(1.0)

    return (made,)


def _restoring() -> Iterator[Scenario]:
    for part in REBOOTED:
        like = _KNOWN[f"create/{part.replace(' ', '-')}"]
        yield _turn(f"rebooted {part}", like, *_rebooted(WAYS[part]))


def _cut(command: Command, words: str) -> Prepare:
    return lambda place: place.cut_off(command, words)


def _going_on() -> Iterator[Scenario]:
    for name, words in CUT.items():
        dead, part = _KNOWN[name], f"dead {name.replace('/', ' ')}"
        yield _turn(part, dead, *dead.prepare, _cut(dead.command, words))


def _draining() -> Scenario:
    like = _KNOWN["drain/host"]
    return _turn("draining host", like, *like.prepare, _cut(like.command, "after update host"))


def _returned() -> Scenario:
    """In maintenance, and it has what evacuated VMs left there."""
    like = _KNOWN["leave-maintenance/host"]
    return _turn("evacuated host", like, *like.prepare)


SCENARIOS = (*_restoring(), *_going_on(), _draining(), _returned())

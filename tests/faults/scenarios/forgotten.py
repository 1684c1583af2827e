"""A ledger that went back in time, and a host that was reinstalled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Place, Prepare, Scenario
from tests.faults.scenarios.ways import FRESH, WAYS, Way
from vgpumgr.helper import claims

THAWED = ("mdev", "vfio-vf in MIG")
Since = Callable[[Place, Way], None]


def _older(way: Way, since: Since) -> Prepare:
    """A VM, and then all that the copy of the ledger does not know."""

    def prepare(place: Place) -> None:
        way.enrol(place, "h1", "h2")
        place.cordon("h2", on=True)
        place.apply(way.desk(disks=(FRESH,)))
        place.cordon("h2", on=False)
        put_back = place.remembered()
        since(place, way)
        put_back()

    return prepare


def _made_and_moved(place: Place, way: Way) -> None:
    place.engine.migrate("desk", "h2", cold=True).raise_for_failure()
    place.apply(replace(way.desk(disks=(FRESH,)), name="later"))


def _deleted_and_made(place: Place, way: Way) -> None:
    place.engine.delete(["desk"], keep_disks=False, force=True).raise_for_failure()
    place.apply(replace(way.desk(disks=(FRESH,)), name="later"))


def _thawed(part: str, way: Way, since: Since, *forget: str) -> Scenario:
    return Scenario(
        operation="thaw",
        part=part,
        hosts=way.hosts("h1", "h2"),
        command=commands.thaw(*forget),
        prepare=(_older(way, since),),
        ends=("again", "serve"),
    )


def _blank(place: Place) -> None:
    """Its disk is empty: no domain of ours, no claim, no epoch."""
    host = place.hosts.fleet.hosts["h1"]
    for name in ("desk", "keeper"):
        host.domains.destroy(name)
        host.domains.undefine(name)
    for unit in host.system.list(claims.CLAIMS):
        host.system.remove(f"{claims.CLAIMS}/{unit}")
    for fleet in host.system.list(claims.EPOCHS):
        host.system.remove(f"{claims.EPOCHS}/{fleet}")


def _noticed() -> Scenario:
    """It is cordoned, and what its VMs hold there stays theirs until an operator says otherwise."""
    way = WAYS["no gpu"]

    def made(place: Place) -> None:
        way.enrol(place, "h1")
        place.apply(WAYS["mdev"].desk(disks=(FRESH,)))

    return Scenario(
        operation="serve",
        part="host installed anew",
        hosts=WAYS["mdev"].hosts("h1"),
        command=commands.serve,
        prepare=(made, _blank),
        ends=("again",),
        excused=("I6 lost", "I2 unclaimed"),
    )


SCENARIOS = (
    *(_thawed(part, WAYS[part], _made_and_moved) for part in THAWED),
    _thawed("VM deleted since", WAYS["mdev"], _deleted_and_made, "desk"),
    _noticed(),
)

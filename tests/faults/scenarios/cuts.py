"""Operations that were cut, and are taken back: ``operation undo``, killed in its turn."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios import adopted, emptied, hosts, images, moves
from tests.faults.scenarios.ways import FRESH, OVERLAY, SEED, WAYS, Way
from vgpumgr.model.sim_fleet import SimHost

# How a host that comes or goes, and how an image, was cut.
_IMAGES = {
    "image-import/one-more-host": "before import ImportImage done",
    "image-retire/with-copies": "after discard DeleteImage intent",
}
_HOSTS = {"add": "before enrol JoinFleet done", "remove": "after remove LeaveFleet intent"}


def _undone(
    operation: str,
    part: str,
    hosts: tuple[SimHost, ...],
    command: Command,
    words: str,
    *prepare: Prepare,
) -> Scenario:
    """``command``, cut at the first point of these words, and then undone."""
    return Scenario(
        operation=f"undo {operation}",
        part=part,
        hosts=hosts,
        command=commands.undo,
        prepare=(*prepare, lambda place: place.cut_off(command, words)),
        # Killed before it wrote anything, the operation goes forward by any other end.
        several=True,
    )


def _creations() -> Iterator[Scenario]:
    """All was made, and it ran: everything is to be taken back."""
    for part, way in WAYS.items():
        desk = way.desk(disks=(FRESH, OVERLAY), cloud_init=SEED, autostart=True)

        def enrolled(place: Place, way: Way = way) -> None:
            way.enrol(place, "h1")

        command, words = commands.apply(desk), "before create StartDomain done"
        yield _undone("create", part, way.hosts("h1"), command, words, enrolled)


def _moves() -> Iterator[Scenario]:
    """Everything is on the target but the VM itself."""
    cut = {"migrate cold": "after migrate StartMoved intent"}
    cut["migrate live"] = "after migrate MoveDomain intent"
    cut["reseat"] = "after reseat StartReseated intent"
    for each in moves.SCENARIOS:
        if each.operation in cut and each.part in {"mdev", "vfio-vf in MIG", "pci-vf"}:
            words = cut[each.operation]
            yield _undone(each.operation, each.part, each.hosts, each.command, words, *each.prepare)


def _others() -> Iterator[Scenario]:
    lost = next(each for each in emptied.SCENARIOS if each.name == "evacuate/vfio-vf")
    words = "after evacuate StartEvacuated intent"
    yield _undone("evacuate", lost.part, lost.hosts, lost.command, words, *lost.prepare)
    found = next(each for each in adopted.SCENARIOS if each.name == "adopt/mdev")
    words = "before adopt MarkDomain done"
    yield _undone("adopt", found.part, found.hosts, found.command, words, *found.prepare)
    for each in hosts.SCENARIOS:
        if cut := _HOSTS.get(each.part):
            yield _undone("host", each.part, each.hosts, each.command, cut, *each.prepare)
    for each in images.SCENARIOS:
        if cut := _IMAGES.get(each.name):
            yield _undone(each.operation, each.part, each.hosts, each.command, cut, *each.prepare)


SCENARIOS = (*_creations(), *_moves(), *_others())

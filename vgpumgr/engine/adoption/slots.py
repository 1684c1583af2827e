"""Which units of its GPU an adopted part takes in the ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr import gpu as frameworks
from vgpumgr.engine.adoption.candidate import FoundPart
from vgpumgr.engine.supply.carved import instances
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord
from vgpumgr.model.vm import Allocation


def slots_of(
    part: FoundPart, gpu: GpuRecord, held: Iterable[Allocation], before: Sequence[FoundPart]
) -> tuple[int, ...]:
    """The slots where it lies, or as many free ones as it takes; () where the ledger has no room.

    ``before`` are parts that are adopted with it.
    """
    ours = [each for each in held if each.gpu == gpu.id]
    taken = {slot for each in ours for slot in each.slots}
    taken |= {slot for each in before if each.gpu == gpu.id for slot in each.slots}
    if part.offer.framework is Framework.PASSTHROUGH:
        return () if taken else tuple(range(gpu.units))
    place = _place(part, gpu.facts)
    if place is None:
        carved = instances(gpu.facts, ours, (), (part.offer,))
        inside = {slot for each in carved for slot in each.slots}
        place = tuple(slot for slot in range(gpu.units) if slot not in inside)
    free = tuple(slot for slot in place if slot not in taken)[: part.offer.units]
    return free if len(free) == part.offer.units else ()


def _place(part: FoundPart, gpu: GpuFacts) -> tuple[int, ...] | None:
    """The slots under its GPU instance or placement; None where any will do."""
    if part.instance is not None:
        return frameworks.slice_slots(gpu, part.instance.start, part.instance.size)
    if not part.offer.starts:
        return None
    starts = {start.at: start.slots for start in part.offer.starts}
    return starts.get(part.placement_id if part.placement_id is not None else -1, ())

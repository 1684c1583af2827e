"""One order of many requests, decided by a ``Placer`` in an order that spreads each type evenly."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.placer import Placer, evenly


def place_bulk(
    placer: Placer, requests: Sequence[VmSpec], *, explain: bool = True
) -> tuple[Decision, ...]:
    """Decide and commit requests of one order, spread evenly; decisions as ``requests`` go."""
    decisions: dict[int, Decision] = {}
    for index in evenly(requests):
        decision = decisions[index] = placer.decide(requests[index], explain=explain)
        if isinstance(decision, Placed):
            placer.commit(decision)
    return tuple(decisions[index] for index in range(len(requests)))

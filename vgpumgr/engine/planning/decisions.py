"""Decisions on requests by a reading of the ledger: back-off respected, layouts changed at last."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.inventory.host_supply import LATELY_REFUSED, ExcludedSupply, build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.automatic_layouts import place_with_layouts
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import VmSpec


def decide(
    view: LedgerView,
    requests: Sequence[VmSpec],
    place: PlaceFunction,
    left: ExcludedSupply = LATELY_REFUSED,
) -> tuple[Decision, ...]:
    """Decisions that respect back-off, and where these leave a VM without a place, decisions that
    ignore it. Places in ``left`` are never used.
    """
    found = place(build_fleet(view, left), requests)
    if all(isinstance(each, Placed) for each in found) or not view.backing_off:
        return found
    return place(build_fleet(view, left.with_back_off), requests)


def decide_with_layouts(
    view: LedgerView,
    requests: Sequence[VmSpec],
    place: PlaceFunction,
    left: ExcludedSupply = LATELY_REFUSED,
) -> tuple[Decision, ...]:
    """Decisions; where these leave a VM without a place, on empty GPUs that are partitioned for it
    first, of hosts with automatic layouts.
    """
    return place_with_layouts(view, decide(view, requests, place, left), place, left)

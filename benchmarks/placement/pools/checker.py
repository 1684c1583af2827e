"""Validates what lies on every GPU, by arithmetic of its own on the catalogue's numbers."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.pools.boards import Board, offers_of, starts_of
from vgpumgr.model.supply import Offer
from vgpumgr.placement.tables.state_space import StateTransition


def check(board: Board, gpus: Iterable[Iterable[StateTransition]]) -> None:
    """Raises ``InvalidPlacement`` where a GPU holds what it cannot."""
    offers = offers_of(board)
    for number, held in enumerate(gpus):
        fault = _fault(board, offers, list(held))
        if fault:
            raise InvalidPlacement(f"GPU {number}: {fault}")


def _fault(board: Board, offers: list[Offer], held: list[StateTransition]) -> str:
    units, slices, taken = 0, 0, 0
    for step in held:
        offer = offers[step.part]
        units += len(offer.starts[0].slots) if offer.instance else offer.units
        slices += offer.instance.gpu_slices if offer.instance else 0
        if offer.starts and step.slots not in starts_of(offer):
            return f"{offer.profile} does not begin there"
        if taken & step.slots:
            return f"{offer.profile} lies on another"
        taken |= step.slots
    if units > board.supply.units:
        return f"{units} units of {board.supply.units}"
    if slices > board.supply.gpu_slices > 0:
        return f"{slices} compute slices of {board.supply.gpu_slices}"
    if board.supply.same_size and len({offers[step.part].size_class for step in held}) > 1:
        return "vGPUs of several sizes"
    return ""

"""Placements within the licence seats that are declared. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.errors import NoSeatLeft
from vgpumgr.model.licence import (
    Edition,
    SeatShortage,
    no_seat_left,
    seats_command,
    seats_of,
    seats_taken,
    shortage_text,
    shortages,
)
from vgpumgr.model.placement import Decision, NotPlaced, Placed, Reason
from vgpumgr.model.vm import VmState

LICENCE = "licence"


def seats_used(view: LedgerView) -> Counter[str]:
    """The seats by edition that VMs take, where they are; a shelved one, or one that is looked at
    as if it were, takes none.
    """
    off = {vm.id for vm in view.vms if vm.state is VmState.SHELVED}
    return seats_taken(
        (each.vm_id, each.profile) for each in view.allocations if each.vm_id not in off
    )


def within_seats(view: LedgerView, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions, in their order; a placement for which no seat is left is refused."""
    licences = tuple(view.licences)
    if not licences:
        return list(decisions)
    used = seats_used(view)
    held: list[Decision] = []
    for each in decisions:
        if isinstance(each, Placed):
            asked = seats_of(part.offer.profile for part in each.assignments)
            if found := list(shortages(licences, used, asked)):
                held.append(NotPlaced(request=each.request, reasons=tuple(map(_reason, found))))
                continue
            used.update(asked)
        held.append(each)
    return held


def without_seat(unplaced: Iterable[NotPlaced]) -> NoSeatLeft | None:
    """The error for the first that has a place and no seat; None where there is none."""
    for each in unplaced:
        if each.reasons and all(reason.code == LICENCE for reason in each.reasons):
            error = no_seat_left([_shortage(reason) for reason in each.reasons])
            error.message = f"{each.request.name} cannot be placed: {error.message}"
            return error
    return None


def seats_raise_command(refused: NotPlaced) -> str:
    """The command that declares enough seats for a refused VM."""
    return seats_command(_shortage(refused.reasons[0]))


def _reason(found: SeatShortage) -> Reason:
    facts: dict[str, int | str] = {
        "edition": found.edition.value,
        "used": found.used,
        "asked": found.asked,
        "seats": found.seats,
    }
    return Reason(code=LICENCE, host="", text=shortage_text(found), facts=facts)


def _shortage(reason: Reason) -> SeatShortage:
    facts = reason.facts
    return SeatShortage(
        edition=Edition(str(facts["edition"])),
        used=int(facts["used"]),
        asked=int(facts["asked"]),
        seats=int(facts["seats"]),
    )

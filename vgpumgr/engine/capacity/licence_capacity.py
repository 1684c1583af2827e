"""How many more VMs of a profile the licence seats allow. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.engine.capacity.profile_capacity import ProfileRoom
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.licence_limits import seats_used
from vgpumgr.model.licence import edition_of


class SeatsLeft:
    """The seats that are left of each edition as the ledger is."""

    def __init__(self, view: LedgerView) -> None:
        used = seats_used(view)
        self._left = {
            each.edition: max(0, each.seats - used[each.edition]) for each in view.licences
        }
        self._open: set[str] = set()

    def of(self, room: ProfileRoom) -> dict[str, int | str | None]:
        """The fields of a profile's capacity that seats say, or bound."""
        edition = edition_of(room.profile)
        left = self._left.get(edition) if edition else None
        if edition and left is None:
            self._open.add(edition.value)
        bound = {} if left is None else self._bound(room, left)
        return {**bound, "edition": edition.value if edition else "", "seats_left": left}

    def _bound(self, room: ProfileRoom, left: int) -> dict[str, int | str | None]:
        fits, after = min(room.fits, left), min(room.fits_after, left)
        return {"fits": fits, "fits_after": after if after > fits else 0}

    def notes(self) -> Iterator[str]:
        """What is not counted, once any is."""
        if self._left and self._open:
            names = ", ".join(sorted(self._open))
            yield f"licence seats are not declared, and so not limited, of: {names}"

"""Where requests go by a reading of the ledger: what refused lately is chosen last. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.outlook import Place
from vgpumgr.engine.supply import LATELY_REFUSED, Left, build_fleet
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import VmSpec


def decide(
    view: LedgerView, requests: Sequence[VmSpec], place: Place, left: Left = LATELY_REFUSED
) -> tuple[Decision, ...]:
    """Beside what refused lately, and where that does not hold all of them, with it. Never on what
    is ``left`` out.
    """
    found = place(build_fleet(view, left), requests)
    if all(isinstance(each, Placed) for each in found) or not view.backing_off:
        return found
    return place(build_fleet(view, left.with_back_off), requests)

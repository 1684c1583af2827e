"""Refusals of a host or GPU in JSON, and its back-off."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.refusal import Refusal

BACK_OFF = "back-off"


class RefusalItem(TypedDict):
    """What was refused to a VM there. ``counts``: it is evidence against the place."""

    at: Time
    vm: str
    operation: str
    what: str
    why: str
    counts: bool


class Refusals(TypedDict):
    """What no success has closed since, and for how many more seconds the place is chosen last."""

    back_off_s: float
    refusals: list[RefusalItem]


def refusals_item(refusals: Sequence[Refusal]) -> Refusals:
    """The JSON of the refusals of one place."""
    return {
        "back_off_s": round(max((each.left_s for each in refusals), default=0.0), 1),
        "refusals": [
            {
                "at": each.at,
                "vm": each.vm,
                "operation": each.operation,
                "what": each.what,
                "why": each.why,
                "counts": each.counts,
            }
            for each in refusals
        ],
    }

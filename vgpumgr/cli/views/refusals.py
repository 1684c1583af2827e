"""What GPUs and hosts refused, as the reading commands show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vgpumgr.cli.views.ages import age
from vgpumgr.model.refusal import Refusal

BACK_OFF = "back-off"


def refusals_item(refusals: Sequence[Refusal]) -> dict[str, Any]:
    """What no success has closed since, and for how many more seconds it is chosen last."""
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


def refusal_lines(item: dict[str, Any], most: int = 5) -> Iterable[tuple[str, str]]:
    """``Refused   to make T4-4Q for desk-01, 3 m ago: EIO, Input/output error``, the last first."""
    found = item["refusals"]
    for each in reversed(found[-most:]):
        aside = "" if each["counts"] else " (cleared)"
        what = f"to {each['what']} for {each['vm']}, {age(each['at'])} ago"
        yield "Refused", f"{what}: {each['why']}{aside} (operation {each['operation'][:8]})"
    if len(found) > most:
        yield "Refused", f"and {len(found) - most} times before"

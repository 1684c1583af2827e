"""Explanations, for people and for programs."""

from __future__ import annotations

from typing import Any

from vgpumgr.cli.output import table
from vgpumgr.cli.views.plans import reason_items, reason_rows
from vgpumgr.model.explanation import Explanation
from vgpumgr.model.placement import FITS

_SHOWN = 3


def explanation_item(found: Explanation) -> dict[str, Any]:
    """The JSON of an explanation."""
    return {
        "vm": found.vm,
        "host": found.host,
        "line": found.line,
        "standing": found.standing,
        "reasons": reason_items(found.reasons),
        "changes": [
            {
                "kind": each.kind,
                "text": each.text,
                "host": each.host,
                "words": each.words,
                "next": each.next,
            }
            for each in found.changes
        ],
    }


def explanation_text(found: Explanation) -> str:
    """One line, then the first rule that failed per GPU, then the cheapest changes."""
    verdict = f"fits: would go to {found.host}" if found.host else "fits nowhere"
    head = f"{found.vm} {found.standing}" if found.standing else f"{found.vm}: {verdict}"
    rows = [[f"  {where}", *rest] for where, *rest in reason_rows(found.reasons)]
    return "\n".join([head, *([table(rows)] if rows else []), *_help(found)])


def _help(found: Explanation) -> list[str]:
    if found.host or (any(each.code == FITS for each in found.reasons) and not found.changes):
        return []
    if not found.changes:
        return ["  none of the single changes that were tried makes it fit"]
    first, *others = found.changes
    lines = [f"  it fits {first.words}", *(f"    {line}" for line in first.next.splitlines())]
    return [*lines, *(f"  or {each.words}" for each in others[: _SHOWN - 1])]

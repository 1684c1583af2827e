"""Explanations, for people and for programs."""

from __future__ import annotations

from typing import Any

from vgpumgr.cli.output import table
from vgpumgr.cli.views.plans import reason_item, reason_rows
from vgpumgr.model.explanation import Explanation

_SHOWN = 3


def explanation_item(found: Explanation) -> dict[str, Any]:
    """The JSON of an explanation."""
    return {
        "vm": found.vm,
        "host": found.host,
        "line": found.line,
        "reasons": [reason_item(reason) for reason in found.reasons],
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


def explanation_text(item: dict[str, Any]) -> str:
    """One line, then the first rule that failed per GPU, then the cheapest changes."""
    verdict = f"fits: would go to {item['host']}" if item["host"] else "fits nowhere"
    rows = reason_rows(item["reasons"])
    lines = [f"{item['vm']}: {verdict}", *([table(rows)] if rows else [])]
    return "\n".join([*lines, *_help(item)])


def _help(item: dict[str, Any]) -> list[str]:
    if item["host"]:
        return []
    if not item["changes"]:
        return ["  no single change that was tried makes it fit"]
    first, *others = item["changes"]
    lines = [f"  it fits {first['words']}", *(f"    {line}" for line in first["next"].splitlines())]
    return [*lines, *(f"  or {each['words']}" for each in others[: _SHOWN - 1])]

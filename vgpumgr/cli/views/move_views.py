"""Moves of VMs as printed."""

from __future__ import annotations

from vgpumgr.cli.output import table
from vgpumgr.endpoints.vm_moves import MoveItem


def move_text(plan: MoveItem) -> str:
    """A plan for people: every check with its reason."""
    how = "while it runs" if plan["live"] else "cold, and started again" if plan["runs"] else "off"
    head = f"{plan['name']}: {plan['from']} → {plan['to']}, {how}"
    rows = [["  ok" if c["holds"] else "  NO", c["name"], c["text"]] for c in plan["checks"]]
    return f"{head}\n{table(rows)}"

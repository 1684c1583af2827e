"""Moves of VMs as printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import table

if TYPE_CHECKING:
    from vgpumgr.engine.migration.move_plan import MovePlan


def move_item(plan: MovePlan) -> dict[str, Any]:
    """The JSON of a plan."""
    return {
        "name": plan.vm.name,
        "from": plan.source.name,
        "to": plan.target.name,
        "live": plan.live,
        "possible": all(check.holds for check in plan.checks),
        "checks": [
            {"name": check.name, "holds": check.holds, "text": check.text, "next": check.next}
            for check in plan.checks
        ],
        "disks": [
            {
                "pool": disk.pool,
                "name": disk.name,
                "target": disk.guest_name,
                "copied": not disk.shared,
                "size_bytes": disk.size_bytes,
            }
            for disk in plan.disks
        ],
    }


def move_text(plan: MovePlan) -> str:
    """A plan for people: every check with its reason."""
    how = "while it runs" if plan.live else "cold, and started again" if plan.runs else "off"
    head = f"{plan.vm.name}: {plan.source.name} → {plan.target.name}, {how}"
    rows = [["  ok" if c.holds else "  NO", c.name, c.text] for c in plan.checks]
    return f"{head}\n{table(rows)}"

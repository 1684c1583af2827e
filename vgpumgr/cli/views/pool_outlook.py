"""What is next for pools: the next turn of one, and what a file would change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import table
from vgpumgr.model.codec import to_plain
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.use_cases.pool import Outlook, Wish

Item = dict[str, Any]


def outlook_item(name: str, found: Outlook) -> Item:
    """The JSON of a pool's next turn."""
    turn = found.turn
    return {
        "name": name,
        "counts": to_plain(turn.counts),
        "waits": [{"user": user, "why": why} for user, why in found.waits.items()],
        "warnings": to_plain(turn.warnings),
        "refused": found.refused,
        "actions": [
            {"do": str(each.do), "desktop": each.desktop, "user": each.user, "why": each.why}
            for each in turn.actions
        ],
    }


def outlook_text(item: Item) -> str:
    """Counts, warnings, who waits and why, and what the next turn would do."""
    counts = item["counts"]
    startable = f"{counts['startable']} more could be started now"
    head = f"{counted(counts['wanted'], 'desktop')} wanted: " + ", ".join(
        f"{counts[each]} {each}" for each in ("used", "spare", "coming", "broken")
    )
    lines = [f"{head}; {startable}"]
    lines += [f"warning: {each['text']}" for each in item["warnings"]]
    if item["refused"]:
        lines.append(f"no room: {item['refused']}")
    lines += [f"waits: {each['user']}: {each['why']}" for each in item["waits"]]
    rows = [[f"  {each['do']}", each["desktop"], each["why"]] for each in item["actions"]]
    return "\n".join([*lines, "next reconcile cycle:", table(rows) if rows else "  nothing to do"])


def wish_item(wishes: Sequence[Wish]) -> Item:
    """The JSON of what a file changes of pools."""
    return {
        "name": "pools",
        "changes": sum(each.any for each in wishes),
        "pools": [to_plain(each) for each in wishes],
    }


def wish_text(wishes: Sequence[Wish]) -> str:
    """A line for each pool and each change of it."""
    lines: list[str] = []
    for each in wishes:
        verb = "create" if each.new else "change" if each.changes else "unchanged"
        lines.append(f"{verb}  pool {each.pool}")
        lines += [f"  {change}" for change in each.changes]
        lines += [f"  warning: {warning}" for warning in each.warnings]
    return "\n".join(lines)

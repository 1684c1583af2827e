"""Moves of VMs as printed: of a migration, and of a defragmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import Column, table
from vgpumgr.cli.views.ages import age
from vgpumgr.cli.views.plan_views import reason_rows
from vgpumgr.endpoints.outcomes import outcome_item, user_items
from vgpumgr.model.codec import to_plain
from vgpumgr.model.defrag import DefragGoal, LogoffMove, MoveMode, NoDefragMoves, Obstacle, VmMove
from vgpumgr.model.formats import counted, format_mib
from vgpumgr.model.placement import Placed

if TYPE_CHECKING:
    from vgpumgr.engine.defrag.defrag_apply import DefragReport
    from vgpumgr.engine.defrag.defrag_plan import DefragPlan
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


def defrag_item(plan: DefragPlan) -> dict[str, Any]:
    """The JSON of a plan."""
    found = plan.found
    moves = () if isinstance(found, NoDefragMoves) else found.moves
    return {
        "name": "defrag",
        "goal": goal_words(plan.wanted.goal, plan.wanted.share),
        "possible": not isinstance(found, NoDefragMoves),
        "fewest": not isinstance(found, NoDefragMoves) and found.fewest,
        "moves": [_item(move) for move in moves],
        "mib": sum(move.mib for move in moves),
        "fragmentation": {"before": round(plan.before, 4), "after": round(plan.after, 4)},
        "obstacles": [_obstacle(each) for each in getattr(found, "obstacles", ())],
        "refused": list(plan.refused),
        "users": user_items(plan.users),
    }


def defrag_text(plan: DefragPlan) -> str:
    """A line per move, in order, and what they come to; or what is in the way."""
    found, goal = plan.found, goal_words(plan.wanted.goal, plan.wanted.share)
    if isinstance(found, NoDefragMoves):
        rows = reason_rows(each.reason for each in found.obstacles)
        return "\n".join(filter(None, [f"no moves reach the goal: {goal}", table(rows)]))
    if not found.moves:
        return f"nothing to move, the goal is already met: {goal}"
    rows = [_row(number, move) for number, move in enumerate(found.moves, 1)]
    fewest = ", the fewest" if found.fewest else ""
    total = f"{counted(len(found.moves), 'move')}{fewest}, {format_mib(found.mib)} in all"
    return f"{table(rows)}\n{goal}: {total}{gauge_words(plan)}"


def defragmented_item(done: DefragReport) -> dict[str, Any]:
    """The JSON of what was done."""
    return {
        **defrag_item(done.plan),
        **outcome_item(done.outcome),
        "done": [_item(move) for move in done.done],
        "waiting": [_item(move) for move in done.waiting],
    }


LOGOFF_COLUMNS = (
    Column("VM", "name"),
    Column("WAITS FOR", "user"),
    Column("TO", "host"),
    Column("FOR", "why"),
    Column("SINCE", lambda item: age(item["asked_at"])),
)


def logoff_item(move: LogoffMove) -> dict[str, Any]:
    """The JSON of a move that waits for a logoff."""
    return {"name": move.vm, **to_plain(move)}


def waiting_words(move: VmMove) -> str:
    """``cad-01 moves to h3 when ada logs off``."""
    where = "within its host" if move.within else f"to {move.target.host}"
    return f"{move.vm} moves {where} when {move.user} logs off"


def gauge_words(plan: DefragPlan) -> str:
    """``; fragmentation 41% → 12%``, where there is any."""
    if not (plan.before or plan.after):
        return ""
    return f"; fragmentation {plan.before:.0%} → {plan.after:.0%}"


def goal_words(goal: DefragGoal | None, share: float) -> str:
    """What is to be reached."""
    if goal is None:
        return f"fragmentation of at most {share:.0%}"
    return goal.words


def how_words(move: VmMove) -> str:
    """``live, paused for up to 8 s``."""
    if move.way.how is MoveMode.LIVE:
        return f"live, paused for up to {move.pause_s} s"
    where = " within its host, no disk is copied" if move.within else ""
    if move.way.how is MoveMode.OFF:
        return f"it is off{where and ','}{where}"
    took = f"off for {move.pause_s} s and a boot" if move.pause_s else "off for a boot"
    if move.way.how is MoveMode.LOGOFF:
        return f"when {move.user} logs off: cold{where}, {took}"
    return f"cold{where}, {took}"


def user_words(move: VmMove) -> str:
    """The user at work on the VM, and what becomes of the session."""
    if not move.user or move.way.how is MoveMode.LOGOFF:
        return ""
    if move.cuts_off:
        return f"{move.user} is cut off"
    return f"{move.user} is on it, and stays"


def _row(number: int, move: VmMove) -> list[str]:
    profiles = ", ".join(part.offer.profile for part in move.target.assignments)
    path = f"{_place(move.source)} → {_place(move.target)}"
    return [
        f"{number}.", move.vm, profiles, path, format_mib(move.mib), how_words(move),
        "continues from there" if move.hop else user_words(move),
    ]  # fmt: skip


def _place(placed: Placed) -> str:
    return " ".join([placed.host, *dict.fromkeys(part.device for part in placed.assignments)])


def _item(move: VmMove) -> dict[str, Any]:
    return {
        "name": move.vm,
        "from": move.source.host,
        "to": move.target.host,
        "how": str(move.way.how),
        "within": move.within,
        "user": move.user or None,
        "hop": move.hop,
        "mib": move.mib,
        "pause_s": move.pause_s,
        "parts": [
            {"profile": part.offer.profile, "device": part.device, "gpu": part.gpu}
            for part in move.target.assignments
        ],
    }


def _obstacle(each: Obstacle) -> dict[str, str]:
    return {
        "host": each.host,
        "gpu": each.gpu,
        "device": each.device,
        "code": each.code,
        "text": each.text,
    }

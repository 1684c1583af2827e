"""Defragmentation as printed: its moves, and what is in the way."""

from __future__ import annotations

from vgpumgr.cli.output import table
from vgpumgr.cli.views.plan_views import reason_rows
from vgpumgr.endpoints.defrag_items import DefragEnd, DefragMoveItem, DefragPlanItem, MovedPart
from vgpumgr.model.defrag import MoveMode
from vgpumgr.model.formats import counted, format_mib
from vgpumgr.model.placement import Reason


def defrag_text(plan: DefragPlanItem) -> str:
    """A line per move, in order, and what they come to; or what is in the way."""
    goal, moves = plan["goal"], plan["moves"]
    if not plan["possible"]:
        rows = reason_rows(Reason(**each) for each in plan["obstacles"])
        return "\n".join(filter(None, [f"no moves reach the goal: {goal}", table(rows)]))
    if not moves:
        return f"nothing to move, the goal is already met: {goal}"
    rows = [_row(number, move) for number, move in enumerate(moves, 1)]
    fewest = ", the fewest" if plan["fewest"] else ""
    total = f"{counted(len(moves), 'move')}{fewest}, {format_mib(plan['mib'])} in all"
    return f"{table(rows)}\n{goal}: {total}{_gauge_words(plan)}"


def defragmented_text(end: DefragEnd) -> str:
    """How many moves are done, who was cut off, and what waits."""
    total, done = len(end["moves"]), end["done"]
    if not total:
        return defrag_text(end)
    moved = f"{len(done)} of {counted(total, 'move')} done"
    if len(done) == total:
        moved = f"{moved}{_gauge_words(end)}"
    cut_off = ", ".join(f"{move['user']} on {move['name']}" for move in done if move["cuts_off"])
    lines = [f"{moved}; cut off: {cut_off}" if cut_off else moved]
    return "\n".join([*lines, *map(_waiting_words, end["waiting"])])


def _waiting_words(move: DefragMoveItem) -> str:
    """``cad-01 moves to h3 when ada logs off``."""
    where = "within its host" if move["within"] else f"to {move['to']}"
    return f"{move['name']} moves {where} when {move['user']} logs off"


def _gauge_words(plan: DefragPlanItem) -> str:
    """``; fragmentation 41% → 12%``, where there is any."""
    before, after = plan["fragmentation"]["before"], plan["fragmentation"]["after"]
    return f"; fragmentation {before:.0%} → {after:.0%}" if before or after else ""


def _how_words(move: DefragMoveItem) -> str:
    """``live, paused for up to 8 s``."""
    how, pause_s = move["how"], move["pause_s"]
    if how == MoveMode.LIVE:
        return f"live, paused for up to {pause_s} s"
    where = " within its host, no disk is copied" if move["within"] else ""
    if how == MoveMode.OFF:
        return f"it is off{where and ','}{where}"
    took = f"off for {pause_s} s and a boot" if pause_s else "off for a boot"
    if how == MoveMode.LOGOFF:
        return f"when {move['user']} logs off: cold{where}, {took}"
    return f"cold{where}, {took}"


def _user_words(move: DefragMoveItem) -> str:
    """The user at work on the VM, and what becomes of the session."""
    if not move["user"] or move["how"] == MoveMode.LOGOFF:
        return ""
    return (
        f"{move['user']} is cut off" if move["cuts_off"] else f"{move['user']} is on it, and stays"
    )


def _row(number: int, move: DefragMoveItem) -> list[str]:
    path = f"{_place(move['from'], move['from_devices'])} → {_target(move['to'], move['parts'])}"
    profiles = ", ".join(part["profile"] for part in move["parts"])
    return [
        f"{number}.", move["name"], profiles, path, format_mib(move["mib"]), _how_words(move),
        "continues from there" if move["hop"] else _user_words(move),
    ]  # fmt: skip


def _target(host: str, parts: list[MovedPart]) -> str:
    return _place(host, list(dict.fromkeys(part["device"] for part in parts)))


def _place(host: str, devices: list[str]) -> str:
    return " ".join([host, *devices])

"""The queue as printed: its entries, and what its next cycle would do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import fields, table
from vgpumgr.cli.views.ages import age
from vgpumgr.model.formats import counted
from vgpumgr.model.queue import QueueEntry, QueueState
from vgpumgr.model.vm import terms_text

if TYPE_CHECKING:
    from vgpumgr.model.queue import QueueDecision, Wait


def queue_items(entries: Iterable[QueueEntry], turn: QueueDecision | None) -> list[dict[str, Any]]:
    """The JSON of entries, waiting ones with their position and why."""
    waits = {each.waiting.vm.name: each for each in turn.waits} if turn else {}
    starts = {each.waiting.vm.name for each in turn.starts} if turn else set()
    return [_item(each, waits.get(each.name), each.name in starts) for each in entries]


def _item(entry: QueueEntry, wait: Wait | None, starts: bool) -> dict[str, Any]:
    terms = entry.terms
    waits = entry.state is QueueState.WAITING
    return {
        "name": entry.name,
        "id": entry.id,
        "state": str(entry.state),
        "position": wait.position if wait and waits else None,
        "why": _why(entry, wait, starts) if waits else entry.why,
        "priority": terms.priority,
        "spot": terms.spot,
        "runtime_s": terms.runtime_s,
        "after": list(terms.after),
        "together": terms.together,
        "terms": terms_text(terms),
        "tenant": entry.vm.tenant,
        "gpus": [
            {"profile": each.profile, "memory_mib": each.memory_mib, "count": each.count}
            for each in entry.vm.gpus
        ],
        "since": entry.since,
        "started_at": entry.started_at,
        "closed_at": entry.closed_at,
        "preempted": entry.preempted,
        "host": wait.reservation.host if wait and wait.reservation else None,
        "starts_by": wait.reservation.by if wait and wait.reservation else None,
    }


def _why(entry: QueueEntry, wait: Wait | None, starts: bool) -> str:
    """What happened to it last, and what keeps it from starting now."""
    now = "starts in the next reconcile cycle" if starts else wait.text if wait else "being stopped"
    return "; ".join(part for part in (entry.why, now) if part)


def waiting_line(entries: Iterable[QueueEntry]) -> str:
    """Under a list of VMs: how many more there will be; empty where nobody waits."""
    waiting = sum(each.state is QueueState.WAITING for each in entries)
    return f"{counted(waiting, 'VM')} in the queue: vgpumgr queue list" if waiting else ""


def gpus_text(item: dict[str, Any]) -> str:
    """``A40-8Q ×2``."""
    return ",".join(
        f"{each['profile'] or str(each['memory_mib']) + ' MiB'}"
        f"{' ×' + str(each['count']) if each['count'] > 1 else ''}"
        for each in item["gpus"]
    )


def entry_text(items: list[dict[str, Any]]) -> str:
    """Every stay of a VM in the queue, the last one first."""
    return "\n\n".join(
        fields(
            [
                ("Name", item["name"]),
                ("State", item["state"]),
                ("Position", item["position"]),
                ("Why", item["why"]),
                ("Terms", item["terms"]),
                ("Tenant", item["tenant"]),
                ("GPUs", gpus_text(item)),
                ("Asked for", f"{age(item['since'])} ago"),
                ("Started", item["started_at"] and f"{age(item['started_at'])} ago"),
                ("Ended", item["closed_at"] and f"{age(item['closed_at'])} ago"),
                ("Preempted", item["preempted"] and f"{item['preempted']} times"),
            ]
        )
        for item in items
    )


def turn_item(turn: QueueDecision) -> dict[str, Any]:
    """The JSON of a turn."""
    return {
        "name": "queue",
        "starts": [
            {
                "vm": each.waiting.vm.name,
                "host": each.placed.host,
                "preempts": list(each.preempts),
            }
            for each in turn.starts
        ],
        "waits": [
            {
                "vm": each.waiting.vm.name,
                "position": each.position,
                "why": str(each.why),
                "text": each.text,
                "host": each.reservation.host if each.reservation else None,
                "starts_by": each.reservation.by if each.reservation else None,
                "ends": list(each.reservation.ends) if each.reservation else [],
            }
            for each in turn.waits
        ],
    }


def turn_text(turn: QueueDecision) -> str:
    """What the next turn would do, a line each."""
    rows = [
        ["  starts", each.waiting.vm.name, each.placed.host, _preempts(each.preempts)]
        for each in turn.starts
    ]
    rows += [[f"  {each.position}", each.waiting.vm.name, "", each.text] for each in turn.waits]
    return table(rows) if rows else "the queue is empty"


def _preempts(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"after {listed} is stopped" if listed else "there is room"

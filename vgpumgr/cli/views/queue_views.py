"""The queue as printed: its entries, and what its next cycle would do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import fields, table
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.queue import QueueItem, QueueTurn


def gpus_text(item: Mapping[str, Any]) -> str:
    """``A40-8Q ×2``."""
    return ",".join(
        f"{each['profile'] or str(each['memory_mib']) + ' MiB'}"
        f"{' ×' + str(each['count']) if each['count'] > 1 else ''}"
        for each in item["gpus"]
    )


def entry_text(items: Sequence[QueueItem]) -> str:
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


def turn_text(turn: QueueTurn) -> str:
    """What the next turn would do, a line each."""
    rows = [
        ["  starts", each["vm"], each["host"], _preempts(each["preempts"])]
        for each in turn["starts"]
    ]
    rows += [[f"  {each['position']}", each["vm"], "", each["text"]] for each in turn["waits"]]
    return table(rows) if rows else "the queue is empty"


def _preempts(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"after {listed} is stopped" if listed else "there is room"

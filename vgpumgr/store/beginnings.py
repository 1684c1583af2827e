"""What the trail tells of an operation's start. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vgpumgr.model.journal import LAYOUT, Reservation
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.vm import Allocation, VmRecord
from vgpumgr.store.codec import dump

Row = dict[str, Any]


def beginnings(start: Reservation, changes: Sequence[Row]) -> Iterator[Row]:
    """The operation, then each VM that is new or changed, what they take, and each layout."""
    id_ = start.operation.id
    tasks = {task.vm_id if task.verb == LAYOUT else task.vm: task.id for task in start.tasks}
    if not start.continued:
        yield {"event": "operation.begun", "operation": id_, "detail": start.operation.kind}
    for row in (
        *(made(each) for each in start.vms),
        *changes,
        *(taken(each) for each in start.allocations),
        *(_layout(each) for each in start.layouts),
    ):
        yield {**row, "operation": id_, "task": tasks.get(row.get("vm") or row["gpu"], "")}


def made(record: VmRecord) -> Row:
    """A VM that is new in the ledger."""
    return {
        "event": f"vm.{record.state}",
        "vm": record.name,
        "host": record.host,
        "after": record.generation,
        "detail": f"to {'run' if record.running else 'be off'}",
    }


def taken(held: Allocation) -> Row:
    """An allocation that is new in the ledger."""
    return {
        "event": f"allocation.{held.state}",
        "vm": held.vm,
        "host": held.host,
        "gpu": held.gpu,
        "allocation": held.id,
        "profile": held.profile,
        "device": held.device,
        "units": dump(held.slots),
        "after": held.generation,
    }


def _layout(record: LayoutRecord) -> Row:
    return {
        "event": f"layout.{'settled' if record.settled else 'reserved'}",
        "host": record.host,
        "gpu": record.gpu,
        "detail": record.layout,
    }

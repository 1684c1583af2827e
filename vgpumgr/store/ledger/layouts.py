"""Layouts in the ledger: the layout of each GPU, as reserved and as applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from vgpumgr.model.codec import dump, load
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.layout import GpuLayout, LayoutRecord
from vgpumgr.store.ledger.audit_trail import Stamp, of_layouts
from vgpumgr.store.ledger.rows import decodes
from vgpumgr.store.ledger.state_changes import StateChange
from vgpumgr.store.schema import gpu, host, layout, task

_ENROLLED = select(host.c.name).where(host.c.removed_at.is_(None))
_EVERY = (
    select(layout)
    .join(gpu, gpu.c.id == layout.c.gpu)
    .where(layout.c.host.in_(_ENROLLED))
    .order_by(layout.c.host, gpu.c.device, layout.c.gpu)
)
_OF_HOST = _EVERY.where(layout.c.host == bindparam("in_host"))


def list_layouts(connection: Connection, host: str | None = None) -> tuple[LayoutRecord, ...]:
    """The layout last applied to each GPU of the enrolled hosts (or of one), by host and device."""
    query = _EVERY if host is None else _OF_HOST
    return tuple(layout_of(row) for row in connection.execute(query, {"in_host": host}))


@decodes(layout)
def layout_of(row: Any) -> LayoutRecord:
    """The layout of a whole row."""
    return LayoutRecord(
        gpu=row.gpu,
        host=row.host,
        layout=row.layout,
        goal=load(GpuLayout, row.goal),
        operation=row.operation,
        settled=row.settled,
    )


def replace_layouts(
    connection: Connection, records: Sequence[LayoutRecord], compared: Mapping[str, int]
) -> None:
    """Write the records over what their GPUs had.

    ``compared`` are the GPUs whose generation this transaction has compared: it is all that
    referees between two layouts, or a layout and a VM.
    """
    for record in records:
        if record.gpu not in compared:
            raise LedgerError(f"the layout of {record.gpu} was planned without its generation")
    if records:
        old = delete(layout).where(layout.c.gpu == bindparam("in_gpu"))
        connection.execute(old, [{"in_gpu": each.gpu} for each in records])
        connection.execute(insert(layout), [_row(each) for each in records])


def _row(record: LayoutRecord) -> dict[str, object]:
    return {
        "gpu": record.gpu,
        "host": record.host,
        "layout": record.layout,
        "goal": dump(record.goal),
        "operation": record.operation,
        "settled": record.settled,
    }


# A task settles the layout that its own operation wrote, not one that came after.
_OWN = (
    layout.c.gpu == bindparam("in_gpu"),
    layout.c.operation
    == select(task.c.operation).where(task.c.id == bindparam("in_task")).scalar_subquery(),
)
_SETTLE = StateChange(
    update(layout).where(*_OWN).values(settled=True),
    of_layouts("layout.settled", *_OWN, layout.c.settled.is_(False)),
)


def settle(connection: Connection, stamp: Stamp, ended: Iterable[tuple[str, str]]) -> None:
    """Mark the layouts of these GPUs as reached by these tasks."""
    values = [{"in_gpu": gpu_id, "in_task": task_id, **stamp.values} for gpu_id, task_id in ended]
    if values:
        _SETTLE.run(connection, values)

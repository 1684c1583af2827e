"""The audit trail: records that are written in the transaction of the change they tell of.

A change of many rows is recorded by the database itself, from the rows as they are just
before it (``INSERT … SELECT``): a statement that changes nothing leaves no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Connection,
    Delete,
    Float,
    Insert,
    Integer,
    Text,
    Update,
    bindparam,
    case,
    func,
    insert,
    literal,
    or_,
    select,
)
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.actor import Actor
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.codec import dump, load_list, load_mapping, printable
from vgpumgr.model.history import AuditRecord, TrailChanges
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.operation import (
    LAYOUT,
    OF_HOSTS,
    OF_IMAGES,
    Reservation,
)
from vgpumgr.model.vm import VmRecord
from vgpumgr.store.schema import allocation, audit, gpu, layout, operation, step, task, vm
from vgpumgr.store.schema.columns import ALL_ROWS, decodes


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who changes the ledger (``user@controller``), and when (Unix seconds); for whom, and how it
    was established who it is, as in :class:`Actor`.
    """

    by: str
    at: float
    tenant: str = ""
    method: str = ""
    address: str = ""
    credential: str = ""

    @classmethod
    def of(cls, actor: Actor, at: float) -> Stamp:
        """The stamp of what an actor does at a time (Unix seconds)."""
        who = (actor.user, actor.tenant, actor.method.value, actor.address, actor.credential)
        by, *more = map(printable, who)
        return cls(by, at, *more)

    @property
    def columns(self) -> dict[str, object]:
        """Its columns in a record."""
        return {name: getattr(self, name) for name in _STAMPED}

    @property
    def values(self) -> dict[str, object]:
        """What the statements below are executed with, beside their own parameters."""
        return {f"in_{name}": getattr(self, name) for name in _STAMPED}


_STAMPED = tuple(field.name for field in fields(Stamp))


_NO_TEXT = {"units": "[]", "consumption": "{}"}
EMPTY: Mapping[str, object] = {
    column.name: None if column.nullable else _NO_TEXT.get(column.name, "")
    for column in audit.columns
    if column.name not in {"seq", "at"}
}
"""The value of each column that says nothing; a number and a time always say something."""
_NOTHING = {name: value for name, value in EMPTY.items() if name not in _STAMPED}


_WRITE = insert(audit)


def write(connection: Connection, stamp: Stamp, records: Iterable[Mapping[str, object]]) -> None:
    """Write records: fields of :class:`AuditRecord` by name, ``event`` at least."""
    rows = [_row(stamp, each) for each in records]
    if rows:
        connection.execute(_WRITE, rows)


def _row(stamp: Stamp, record: Mapping[str, object]) -> dict[str, object]:
    row = {**_NOTHING, **record, **stamp.columns}
    row["detail"] = printable(str(row["detail"]))
    return row


def of_vms(event: str, *where: ColumnElement[bool]) -> Insert:
    """The record of every VM that a task (``in_task``) is about to change."""
    columns = {"vm": vm.c.name, "host": vm.c.host, **_generations(vm.c.generation)}
    return _from(event, {**_BY_TASK, **columns}, *where)


def of_allocations(event: str, *where: ColumnElement[bool], by_task: bool = True) -> Insert:
    """The record of every allocation that is about to change, by a task (``in_task``) or not."""
    columns = {
        "vm": allocation.c.vm,
        "host": allocation.c.host,
        "gpu": allocation.c.gpu,
        "allocation": allocation.c.id,
        "profile": allocation.c.profile,
        "device": allocation.c.device,
        "units": allocation.c.slots,
        **_generations(allocation.c.generation),
    }
    return _from(event, {**(_BY_TASK if by_task else {}), **columns}, *where)


_OF_NO_VM = or_(*(task.c.verb == verb for verb in sorted({LAYOUT, *OF_HOSTS, *OF_IMAGES})))


def of_tasks(event: str, *where: ColumnElement[bool]) -> Insert:
    """The record of every task that is about to end, with its error (``to_error``)."""
    layout = task.c.verb == LAYOUT
    columns = {
        "operation": task.c.operation,
        "task": task.c.id,
        "vm": case((_OF_NO_VM, ""), else_=task.c.vm),
        "host": task.c.host,
        "gpu": case((layout, task.c.vm_id), else_=""),
        "detail": task.c.verb + case((_ERROR == "", ""), else_=": " + _ERROR),
    }
    return _from(event, columns, *where)


def of_steps(event: str, *where: ColumnElement[bool]) -> Insert:
    """The record of every step that is about to end."""
    on = case((step.c.host == "", task.c.host), else_=step.c.host)
    columns = {
        "operation": task.c.operation,
        "task": task.c.id,
        "vm": case((_OF_NO_VM, ""), else_=task.c.vm),
        "host": on,
        "gpu": case((task.c.verb == LAYOUT, task.c.vm_id), else_=""),
        "detail": step.c.kind,
    }
    return _from(event, columns, step.c.task == task.c.id, *where)


def of_operations(event: str, *where: ColumnElement[bool]) -> Insert:
    """The record of every operation that is about to change its state."""
    return _from(event, {"operation": operation.c.id, "detail": operation.c.kind}, *where)


def of_layouts(event: str, *where: ColumnElement[bool]) -> Insert:
    """The record of every layout that a task (``in_task``) is about to change."""
    columns = {"host": layout.c.host, "gpu": layout.c.gpu, "detail": layout.c.layout}
    return _from(event, {**_BY_TASK, **columns}, *where)


def of_gpus(event: str, *where: ColumnElement[bool]) -> Insert:
    """The record of every GPU whose state and generation are about to change."""
    columns = {
        "host": gpu.c.host,
        "gpu": gpu.c.id,
        "device": gpu.c.device,
        "before": gpu.c.generation,
        "after": gpu.c.generation + 1,
    }
    return _from(event, columns, *where)


_ERROR: ColumnElement[str] = bindparam("to_error", type_=Text)
_TASK: ColumnElement[str] = bindparam("in_task", type_=Text)
_BY_TASK: dict[str, ColumnElement[Any]] = {
    "task": _TASK,
    "operation": func.coalesce(
        select(task.c.operation).where(task.c.id == _TASK).scalar_subquery(), ""
    ),
}
_WHO: dict[str, ColumnElement[Any]] = {
    name: bindparam(f"in_{name}", type_=Float(53) if name == "at" else Text) for name in _STAMPED
}


def _generations(column: ColumnElement[Any]) -> dict[str, ColumnElement[Any]]:
    return {"before": column, "after": column}


def _from(
    event: str, columns: Mapping[str, ColumnElement[Any]], *where: ColumnElement[bool]
) -> Insert:
    nothing = {
        name: literal(value, Integer if name in {"before", "after"} else Text)
        for name, value in _NOTHING.items()
    }
    values = {**nothing, **_WHO, "event": literal(event, Text), **columns}
    return insert(audit).from_select(list(values), select(*values.values()).where(*where))


# The record of an operation's beginning says who asked for all that is done in it.
begun = audit.alias("begun")
_IS_ITS_BEGINNING = (
    (audit.c.operation != "")
    & (begun.c.operation == audit.c.operation)
    & (begun.c.event == "operation.begun")
)
RECORDS = select(
    audit,
    func.coalesce(begun.c.by, "").label("asked_by"),
    func.coalesce(begun.c.tenant, "").label("asked_tenant"),
).select_from(audit.outerjoin(begun, _IS_ITS_BEGINNING))


def list_audit(
    connection: Connection,
    *,
    vm: str = "",
    host: str = "",
    operation: str = "",
    event: str = "",
    by: str = "",
    user: str = "",
    tenant: str = "",
    since: float | None = None,
    limit: int | None = None,
    within: ColumnElement[bool] = ALL_ROWS,
) -> tuple[AuditRecord, ...]:
    """The trail, newest first; ``operation``, ``event``, ``by`` and ``user`` match by their
    beginning. What is of a ``user`` was written by that user, or is in an operation that the user
    began; of a ``tenant`` in the same way.
    """
    query = RECORDS.where(within).order_by(audit.c.seq.desc()).limit(limit)
    if vm:
        query = query.where(audit.c.vm == vm)
    if host:
        query = query.where(audit.c.host == host)
    if operation:
        query = query.where(audit.c.operation.startswith(operation, autoescape=True))
    if event:
        query = query.where(audit.c.event.startswith(event, autoescape=True))
    if by:
        query = query.where(audit.c.by.startswith(by, autoescape=True))
    if user:
        query = query.where(
            audit.c.by.startswith(user, autoescape=True)
            | begun.c.by.startswith(user, autoescape=True)
        )
    if tenant:
        query = query.where((audit.c.tenant == tenant) | (begun.c.tenant == tenant))
    if since is not None:
        query = query.where(audit.c.at >= since)
    return tuple(record_of(row) for row in connection.execute(query))


def audit_after(
    connection: Connection, seq: int, limit: int, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[AuditRecord, ...]:
    """At most ``limit`` records after ``seq``, in order."""
    query = RECORDS.where(audit.c.seq > seq, within).order_by(audit.c.seq).limit(limit)
    return tuple(record_of(row) for row in connection.execute(query))


# Kinds of records, by their beginnings, that say nothing of what is, or belongs, on a host.
_OF_NO_HOST = (
    "quota.", "queue.", "pool.", "booking.", "image.", "ticket.", "session.", "desktop.", "access.",
    "secret.", "flavour.", "backup.",
    "webhook.", "notification.", "notice.", "calendar.", "licence.",
    "profile.",
)  # fmt: skip


def trail_since(connection: Connection, after: int | None) -> TrailChanges:
    """The hosts that records after ``after`` are about; without it, only where the trail ends."""
    end = connection.execute(select(func.coalesce(func.max(audit.c.seq), 0))).scalar_one()
    if after is None or after >= end:
        return TrailChanges(end, ())
    rows = connection.execute(_SINCE, {"in_seq": after}).all()
    hosts = _task_hosts(connection, rows)
    return TrailChanges(
        max(end, rows[-1].seq if rows else 0),
        tuple((row.seq, host) for row in rows for host in _hosts_of(row, hosts)),
    )


_SINCE = (
    select(audit.c.seq, audit.c.event, audit.c.host, audit.c.operation, audit.c.task)
    .where(audit.c.seq > bindparam("in_seq"))
    .order_by(audit.c.seq)
)
_Hosts = Mapping[str, frozenset[str]]


def _hosts_of(row: Any, hosts: _Hosts) -> Iterable[str]:
    """The row's host, and those of its task; of the whole operation where it names neither."""
    found = hosts.get(row.task or row.operation, frozenset()) | ({row.host} if row.host else set())
    if found or row.operation:
        return sorted(found)
    return () if row.event.startswith(_OF_NO_HOST) else ("",)


def _task_hosts(connection: Connection, rows: Iterable[Any]) -> _Hosts:
    """By task and by operation: where they are worked on, and where VMs move to."""
    operations = sorted({row.operation for row in rows if row.operation})
    query = select(task.c.operation, task.c.id, task.c.host, task.c.peer)
    found: dict[str, frozenset[str]] = {}
    for first in range(0, len(operations), _MANY):
        some = operations[first : first + _MANY]
        for row in connection.execute(query.where(task.c.operation.in_(some))):
            hosts = frozenset(each for each in (row.host, row.peer) if each)
            for key in (row.id, row.operation):
                found[key] = found.get(key, frozenset()) | hosts
    return found


_MANY = 500
"""The number of operations in one query: a statement takes a thousand parameters at least."""


@decodes(audit)
def record_of(row: Any) -> AuditRecord:
    """The record of a whole row."""
    values = dict(row._mapping)
    values["units"] = tuple(load_list(values["units"]))
    values["consumption"] = load_mapping(values["consumption"])
    return AuditRecord(**values)


Row = dict[str, Any]


def start_records(start: Reservation, changes: Sequence[Row]) -> Iterator[Row]:
    """The operation, then each VM that is new or changed, what they take, and each layout."""
    id_ = start.operation.id
    tasks = {task.vm_id if task.verb == LAYOUT else task.vm: task.id for task in start.tasks}
    if not start.continued:
        yield {"event": "operation.begun", "operation": id_, "detail": start.operation.kind}
    for row in (
        *(vm_record(each) for each in start.vms),
        *changes,
        *(allocation_record(each) for each in start.allocations),
        *(_layout(each) for each in start.layouts),
    ):
        yield {**row, "operation": id_, "task": tasks.get(row.get("vm") or row["gpu"], "")}


def vm_record(record: VmRecord) -> Row:
    """A VM that is new in the ledger."""
    return {
        "event": f"vm.{record.state}",
        "vm": record.name,
        "host": record.host,
        "after": record.generation,
        "detail": f"to {'run' if record.running else 'be off'}",
        "consumption": dump({"vcpus": record.spec.vcpus, "memory_mib": record.spec.memory_mib}),
    }


def allocation_record(held: Allocation) -> Row:
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
        "consumption": dump(
            {"gpu.units": len(held.slots)}
            | ({"gpu.memory_mib": held.memory_mib} if held.memory_mib is not None else {})
        ),
    }


def _layout(record: LayoutRecord) -> Row:
    return {
        "event": f"layout.{'settled' if record.settled else 'reserved'}",
        "host": record.host,
        "gpu": record.gpu,
        "detail": record.layout,
    }


# Parameters of a statement; those that it does not name are ignored.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of rows; ``told`` is executed just before it, with the same parameters."""

    change: Update | Delete
    told: Insert | None = None

    def run(self, connection: Connection, values: Values | Sequence[Values]) -> int:
        """Tell the trail, then change; how many rows changed."""
        if self.told is not None:
            connection.execute(self.told, values)
        return connection.execute(self.change, values).rowcount


def is_one_of(column: ColumnElement[str], states: Iterable[StrEnum]) -> ColumnElement[bool]:
    """As plain comparisons: an IN list would be expanded anew at every execution."""
    return or_(*(column == value for value in sorted(state.value for state in states)))

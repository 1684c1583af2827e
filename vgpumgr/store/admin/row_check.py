"""Check of every row: read as the product reads it, and compared with its types."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from sqlalchemy import Boolean, Column, Connection, Integer, Select, Table, and_, func, not_, select
from sqlalchemy import type_coerce as coerced
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import NullType

from vgpumgr.model.errors import Damaged
from vgpumgr.model.ledger_state import LedgerProblem
from vgpumgr.model.operation import OperationState, StepRecord
from vgpumgr.store.database.faults import RESTORE, damaged
from vgpumgr.store.ledger.access import binding_of, login_of, token_of
from vgpumgr.store.ledger.allocations import HELD, allocation_of
from vgpumgr.store.ledger.api_requests import request_of_row
from vgpumgr.store.ledger.audit_trail import record_of
from vgpumgr.store.ledger.calendars import calendar_of
from vgpumgr.store.ledger.flavours import flavour_of
from vgpumgr.store.ledger.gpus import EVERY_GPU, gpu_of, layout_of
from vgpumgr.store.ledger.hosts import READ, from_row
from vgpumgr.store.ledger.images import copy_of, image_of
from vgpumgr.store.ledger.licences import licence_of
from vgpumgr.store.ledger.logoff_moves import move_of
from vgpumgr.store.ledger.notifications import notification_of
from vgpumgr.store.ledger.operations import operation_of, step_of, task_of
from vgpumgr.store.ledger.pools import ask_of, booking_of, desktop_of, pool_of, session_of
from vgpumgr.store.ledger.power import budget_of, cap_of
from vgpumgr.store.ledger.price_books import book_of
from vgpumgr.store.ledger.profile_disks import profile_disk_of
from vgpumgr.store.ledger.queue import entry_of
from vgpumgr.store.ledger.quotas import quota_of
from vgpumgr.store.ledger.refusals import refusal_of
from vgpumgr.store.ledger.request_history import request_of
from vgpumgr.store.ledger.secrets import secret_of
from vgpumgr.store.ledger.tickets import ticket_of
from vgpumgr.store.ledger.vm_backups import backup_of, target_of
from vgpumgr.store.ledger.vms import OPEN_VMS, vm_of
from vgpumgr.store.ledger.webhooks import webhook_of
from vgpumgr.store.schema import (
    allocation,
    api_request,
    api_token,
    audit,
    backup_target,
    booking,
    calendar,
    checkpoint,
    desktop,
    flavour,
    gpu,
    host,
    image,
    image_copy,
    layout,
    licence,
    login_session,
    logoff_move,
    meta,
    metadata,
    notification,
    operation,
    pool,
    pool_ask,
    pool_session,
    power_budget,
    power_cap,
    price_book,
    profile_disk,
    queue,
    quota,
    refusal,
    request,
    role_binding,
    seal,
    secret,
    step,
    task,
    ticket,
    unit,
    vm,
    vm_backup,
    webhook,
)
from vgpumgr.store.schema.columns import Moment, Number, name_of

StepReader: TypeAlias = Callable[[StepRecord], object]
"""What makes a step of its record, as whoever runs it would; it raises Damaged."""


def _read(row: Any, query: Select[Any]) -> tuple[Any, ...]:
    """Of a whole row the columns that the product reads, in their order."""
    return tuple(row._mapping[each.name] for each in query.selected_columns)


# Each table and how its rows become values; None where the columns are the value.
DECODERS: Mapping[Table, Callable[[Any], Any] | None] = {
    allocation: lambda row: allocation_of(_read(row, HELD)),
    api_request: request_of_row,
    api_token: token_of,
    audit: record_of,
    backup_target: target_of,
    booking: booking_of,
    checkpoint: None,
    desktop: desktop_of,
    flavour: flavour_of,
    gpu: lambda row: gpu_of(_read(row, EVERY_GPU)),
    host: lambda row: from_row(_read(row, READ)),
    image: lambda row: image_of(row, ()),
    image_copy: copy_of,
    layout: layout_of,
    login_session: login_of,
    logoff_move: move_of,
    meta: None,
    operation: operation_of,
    pool: pool_of,
    pool_ask: ask_of,
    pool_session: session_of,
    power_budget: budget_of,
    power_cap: cap_of,
    price_book: book_of,
    profile_disk: profile_disk_of,
    queue: entry_of,
    quota: quota_of,
    notification: notification_of,
    calendar: calendar_of,
    licence: licence_of,
    refusal: lambda row: refusal_of(row, 0.0),
    request: request_of,
    secret: secret_of,
    role_binding: binding_of,
    seal: None,
    step: step_of,
    task: lambda row: task_of(row, ()),
    ticket: ticket_of,
    unit: None,
    vm: lambda row: vm_of(_read(row, OPEN_VMS)),
    vm_backup: backup_of,
    webhook: webhook_of,
}

# Of one table: more of the same says nothing new.
_TOLD = 20
OPEN = (OperationState.RUNNING.value, OperationState.INTERRUPTED.value)


def stored_otherwise(connection: Connection) -> Iterator[LedgerProblem]:
    """SQLite keeps text in a column of numbers, and bytes in one of text: who does?"""
    if connection.dialect.name != "sqlite":
        return
    for table in metadata.sorted_tables:
        raw = [coerced(each, NullType).label(each.name) for each in table.columns]
        for row in connection.execute(select(*raw).where(not_(_stored(table))).limit(_TOLD)):
            wrong = (each for each in table.columns if not _fits(each, row._mapping[each.name]))
            why = "; ".join(f"{each.name} is {row._mapping[each.name]!r:.40}" for each in wrong)
            yield _problem(damaged(name_of(table, row), why))


def unreadable(connection: Connection, read_step: StepReader | None) -> Iterator[LedgerProblem]:
    """Every row that its reader gives up on, or of which it makes something of the wrong type."""
    for table, decode in DECODERS.items():
        found = _unreadable(connection, table, decode) if decode else iter(())
        yield from (problem for _, problem in zip(range(_TOLD), found, strict=False))
    if read_step is not None:
        yield from _steps(connection, read_step)


def _unreadable(
    connection: Connection, table: Table, decode: Callable[[Any], Any]
) -> Iterator[LedgerProblem]:
    for row in connection.execute(select(table)):
        try:
            wrong = misfit(decode(row))
        except Damaged as error:
            yield _problem(damaged(name_of(table, row), error.why))
            continue
        if wrong:
            yield _problem(damaged(name_of(table, row), wrong))


def _steps(connection: Connection, read: StepReader) -> Iterator[LedgerProblem]:
    """Steps that somebody may still go on with."""
    of_open = select(task.c.id).join(operation).where(operation.c.state.in_(OPEN))
    left = select(step).where(step.c.task.in_(of_open))
    for row in connection.execute(left):
        try:
            record = step_of(row)
        except Damaged:
            continue  # told already
        try:
            wrong = misfit(read(record))
        except Damaged as error:
            wrong = error.why
        if wrong:
            yield _problem(damaged(name_of(step, row), wrong))


def misfit(value: Any) -> str:
    """What of a decoded dataclass is not of its type; empty where all is."""
    return next(_misfits(type(value), value, ""), "") if dataclasses.is_dataclass(value) else ""


def _misfits(kind: Any, value: Any, at: str) -> Iterator[str]:
    if get_origin(kind) in {Union, types.UnionType}:
        if all(any(_misfits(each, value, at)) for each in get_args(kind)):
            yield f"{at} is {value!r:.60}"
        return
    shape = get_origin(kind) or kind
    if not isinstance(shape, type) or shape in {object, Any}:
        return
    if not _is_a(shape, value):
        yield f"{at} is {value!r:.60}"
        return
    for inner in _inside(kind, shape, value, at):
        yield from _misfits(*inner)


def _is_a(shape: type, value: Any) -> bool:
    if shape in {int, float}:
        numbers = (int,) if shape is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, shape)


def _inside(kind: Any, shape: type, value: Any, at: str) -> Iterator[tuple[Any, Any, str]]:
    """What a value is made of: the type of each part, the part, and where it is."""
    args = get_args(kind)
    if dataclasses.is_dataclass(shape):
        for name, hint in get_type_hints(shape).items():
            yield hint, getattr(value, name), f"{at}.{name}" if at else name
    elif shape is tuple and args[1:] != (Ellipsis,):
        yield from ((part, item, at) for part, item in zip(args, value, strict=True))
    elif shape in {tuple, frozenset}:
        yield from ((args[0], item, at) for item in value)
    elif issubclass(shape, Mapping) and args:
        for key, item in value.items():
            yield from ((args[0], key, at), (args[1], item, f"{at}[{key!r}]"))


def _stored(table: Table) -> ColumnElement[bool]:
    return and_(*(func.typeof(each).in_(_classes(each)) for each in table.columns))


def _classes(column: Column[Any]) -> list[str]:
    """The storage classes that SQLite may keep a column's values in."""
    if isinstance(column.type, Moment):
        numbers = ["real", "integer"]
    elif isinstance(column.type, Number | Integer | Boolean):
        numbers = ["integer"]
    else:
        numbers = ["text"]
    return [*numbers, *(["null"] if column.nullable else [])]


def _fits(column: Column[Any], value: Any) -> bool:
    kinds = {"real": float, "integer": int, "text": str, "null": type(None)}
    return type(value) in {kinds[each] for each in _classes(column)}


def _problem(error: Damaged) -> LedgerProblem:
    return LedgerProblem(what=error.message, why=error.why, next=RESTORE)

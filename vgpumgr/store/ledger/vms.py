"""VMs in the ledger: lists, look-ups, and changes of records."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, fields_decoder, load, load_list
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.guest import GuestRecord
from vgpumgr.model.snapshot import NO_SNAPSHOTS, SnapshotTree
from vgpumgr.model.vm import (
    VmPlace,
    VmRecord,
    VmSpec,
    VmState,
)
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.database.redaction import owe
from vgpumgr.store.ledger.allocations import AGAIN
from vgpumgr.store.ledger.row_memo import MOST_TEXTS, RowMemo
from vgpumgr.store.schema import (
    queue,
    vm,
)
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

_EVERY_VM = select(
    vm.c.id,
    vm.c.spec,
    vm.c.host,
    vm.c.state,
    vm.c.running,
    vm.c.generation,
    vm.c.numa_node,
    vm.c.cpus,
    vm.c.volumes,
    vm.c.created_at,
    vm.c.moving_to,
    vm.c.definition,
    vm.c.snapshots,
    vm.c.guest,
    vm.c.nic_functions,
)
_VM = _EVERY_VM.where(vm.c.deleted_at.is_(None))
OPEN_VMS = _VM.order_by(vm.c.name)
_NAMED = _VM.where(vm.c.name == bindparam("in_vm"))
_WAITS = select(queue.c.id).where(queue.c.closed_at.is_(None), queue.c.name == bindparam("in_vm"))


def list_vms(
    connection: Connection,
    host: str | None = None,
    ids: Collection[str] = (),
    *,
    within: ColumnElement[bool] = ALL_ROWS,
) -> tuple[VmRecord, ...]:
    """VMs that are not deleted, by name; with ``host`` those that are there or move there, and
    those of these ids.
    """
    if host is None:
        query = OPEN_VMS if within is ALL_ROWS else OPEN_VMS.where(within)
        every = tuple(map(vm_of, connection.execute(query).all()))
        if within is ALL_ROWS:
            _VMS.listed(len(every))
        return every
    wanted = or_(vm.c.host == host, vm.c.moving_to.is_not(None), vm.c.id.in_(sorted(ids)))
    found = (vm_of(row) for row in connection.execute(OPEN_VMS.where(wanted, within)))
    return tuple(each for each in found if host in _hosts(each) or each.id in ids)


def _hosts(record: VmRecord) -> tuple[str, ...]:
    return (record.host, record.moving_to.host) if record.moving_to else (record.host,)


def get_vm(
    connection: Connection,
    name: str,
    *,
    within: ColumnElement[bool] = ALL_ROWS,
    waits: ColumnElement[bool] = ALL_ROWS,
) -> VmRecord:
    """One VM; NotFound says where it waits, or suggests near names."""
    row = connection.execute(_NAMED.where(within), {"in_vm": name}).one_or_none()
    if row is None:
        if connection.execute(_WAITS.where(waits), {"in_vm": name}).first() is not None:
            raise NotFound(
                f"there is no VM {name} yet",
                why="it waits in the queue for room",
                next=f"vgpumgr queue show {name}; vgpumgr queue cancel {name} ends that",
            )
        there = select(vm.c.name).where(vm.c.deleted_at.is_(None), within)
        names = connection.execute(there).scalars()
        raise not_found("vm", name, names)
    return vm_of(row)


def vms_ever(connection: Connection, ids: Collection[str]) -> tuple[VmRecord, ...]:
    """The VMs of these ids, deleted ones too."""
    found = connection.execute(_EVERY_VM.where(vm.c.id.in_(sorted(ids))).order_by(vm.c.name))
    return tuple(vm_of(row) for row in found)


@decodes(vm)
def vm_of(row: Any) -> VmRecord:
    """The VM of a row of ``OPEN_VMS``."""
    return _VMS.of(row[0], *row)


def _vm_record(
    id_: str,
    spec: str,
    host: str,
    state: str,
    running: bool,
    generation: int,
    numa_node: int | None,
    cpus: str,
    volumes: str,
    created_at: float,
    moving_to: str | None,
    definition: str,
    snapshots: str | None,
    guest: str | None,
    nic_functions: str,
) -> VmRecord:
    return VmRecord(
        id=id_,
        spec=_spec(spec),
        host=host,
        state=VmState(state),
        running=running,
        generation=generation,
        numa_node=numa_node,
        cpus=tuple(load_list(cpus)),
        volumes=tuple((pool, name) for pool, name in load_list(volumes)),
        created_at=created_at,
        moving_to=place(moving_to),
        definition=definition,
        snapshots=_tree(snapshots),
        guest=None if guest is None else load(GuestRecord, guest),
        nic_functions=tuple(load_list(nic_functions)),
    )


def _tree(text: str | None) -> SnapshotTree:
    return NO_SNAPSHOTS if text is None else load(SnapshotTree, text)


_VMS = RowMemo(_vm_record)

# Of a text that dump() wrote of a VmSpec, which begins so.
_NAME = re.compile(r'\{"name":("(?:[^"\\]|\\.)*"),')
# Longer ones have a cloud-init text of their own.
_SHORT = 4096


def _spec(text: str) -> VmSpec:
    """The spec; VMs that differ in their name alone share the rest."""
    name = _NAME.match(text) if len(text) <= _SHORT else None
    if name is None:
        return load(VmSpec, text)
    return VmSpec(**{**_nameless("{" + text[name.end() :]), "name": json.loads(name[1])})


@lru_cache(maxsize=MOST_TEXTS)
def _nameless(text: str) -> dict[str, Any]:
    return fields_decoder(VmSpec)(json.loads(text))


def place(text: str | None) -> VmPlace | None:
    """Where a VM is moving; None while it stays."""
    return None if text is None else load(VmPlace, text)


def snapshots_text(tree: SnapshotTree) -> str | None:
    """A VM's snapshots as its row has them."""
    return dump(tree) if tree else None


def vm_row(record: VmRecord) -> dict[str, object]:
    """The row of a VM that is not deleted."""
    return {
        "id": record.id,
        "name": record.name,
        "host": record.host,
        "state": record.state.value,
        "running": record.running,
        "generation": record.generation,
        "spec": dump(record.spec),
        "numa_node": record.numa_node,
        "cpus": dump(record.cpus),
        "volumes": dump(record.volumes),
        "created_at": record.created_at,
        "moving_to": dump(record.moving_to) if record.moving_to is not None else None,
        "definition": record.definition,
        "snapshots": snapshots_text(record.snapshots),
        "nic_functions": dump(record.nic_functions),
        "tenant": record.spec.tenant,
    }


def deleted_vms(connection: Connection, ids: Collection[str]) -> frozenset[str]:
    """Which of these ids are VMs that were deleted."""
    gone = (vm.c.id.in_(sorted(ids)), vm.c.state == VmState.DELETED.value)
    return frozenset(connection.execute(select(vm.c.id).where(*gone)).scalars())


Row = dict[str, Any]

_IT = vm.c.id == bindparam("in_vm")
_THERE = select(vm).where(_IT, vm.c.deleted_at.is_(None)).with_for_update()
_CHANGE = update(vm).where(_IT)


def change_vms(connection: Connection, changed: Sequence[VmRecord]) -> list[Row]:
    """Write changed records where nobody else changed them since they were read; what the trail
    tells of each.

    A record with a new spec carries the generation after the one it was made from (its domain's
    metadata names it); one whose spec is as it was carries the one it was read with. Both leave
    the row one generation higher.
    """
    return [_change(connection, record) for record in changed]


def _change(connection: Connection, record: VmRecord) -> Row:
    row = connection.execute(_THERE, {"in_vm": record.id}).one_or_none()
    values = vm_row(record)
    spec = _as_today(row) if row is not None else ""
    same_spec = spec == values["spec"]
    read_at = record.generation if same_spec else record.generation - 1
    if row is None or row.generation != read_at:
        raise StaleGeneration(
            f"VM {record.name} changed since it was read",
            why="it was deleted" if row is None else f"it is at generation {row.generation}",
            next=AGAIN,
        )
    values["generation"] = row.generation + 1
    connection.execute(_CHANGE, {"in_vm": record.id, **values})
    if record.spec.cloud_init is not None:
        owe(connection)
    return {
        "event": f"vm.{record.state}" if record.state.value != row.state else "vm.changed",
        "vm": record.name,
        "host": record.host,
        "before": row.generation,
        "after": row.generation + 1,
        "detail": "; ".join(_words(row, spec, values)),
    }


@decodes(vm)
def _as_today(row: Any) -> str:
    """The spec as it would be written now: an older vgpumgr left out what it did not know."""
    return dump(load(VmSpec, row.spec))


def _words(row: Any, spec: str, values: Row) -> Iterator[str]:
    """What changed: fields of the spec by name, and the place."""
    before, after = json.loads(spec), json.loads(values["spec"])
    fields = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if fields:
        yield f"changed: {', '.join(fields)}"
    if row.host != values["host"]:
        yield f"from {row.host}"
    if values["moving_to"] and not row.moving_to:
        yield f"to {json.loads(values['moving_to'])['host']}"

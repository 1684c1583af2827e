"""VMs whose record an operation changes, each compared with its row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.vm import VmRecord, VmSpec
from vgpumgr.store.codec import dump, load
from vgpumgr.store.redaction import owe
from vgpumgr.store.rows import decodes
from vgpumgr.store.schema import vm
from vgpumgr.store.vms import vm_row

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
            next="the same command again: it makes a new plan",
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

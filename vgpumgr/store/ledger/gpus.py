"""GPUs in the ledger: what a probe showed of each, their layouts, and quarantine.

Lists that many virtual functions share are written once: a host of eight GPUs with 32 VFs each,
every VF with the same two dozen mdev types, would be 1.1 MB of text, and is 0.1 MB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from vgpumgr import catalog
from vgpumgr.model.codec import as_object, dump, from_plain, load, printable
from vgpumgr.model.errors import Conflict, LedgerError, NotFound
from vgpumgr.model.gpu import GpuFacts, GpuHealth, GpuRecord, GpuState, MdevType
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import GpuLayout, LayoutRecord, Scheduler
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.ledger.audit_trail import Stamp, StateChange, of_layouts
from vgpumgr.store.schema import gpu, host, layout, task
from vgpumgr.store.schema.columns import decodes

# More slots than any board has; they are gone through one by one.
_MOST_UNITS = 4096
_ENROLLED = select(host.c.name).where(host.c.removed_at.is_(None))
_EVERY = (
    select(
        gpu.c.id,
        gpu.c.host,
        gpu.c.facts,
        gpu.c.units,
        gpu.c.state,
        gpu.c.generation,
        gpu.c.state_why,
    )
    .where(gpu.c.host.in_(_ENROLLED))
    .order_by(gpu.c.host, gpu.c.device, gpu.c.id)
)
_OF_HOST = _EVERY.where(gpu.c.host == bindparam("in_host"))


def list_gpus(connection: Connection, host: str | None = None) -> tuple[GpuRecord, ...]:
    """GPUs of enrolled hosts (of one with ``host``), by host and device."""
    query = _EVERY if host is None else _OF_HOST
    return tuple(gpu_of(row) for row in connection.execute(query, {"in_host": host}))


@decodes(gpu)
def gpu_of(row: Any) -> GpuRecord:
    """The GPU of a row of the columns that lists read."""
    return GpuRecord(
        id=row.id,
        host=row.host,
        facts=load_gpu(row.facts),
        units=min(row.units, _MOST_UNITS),
        state=GpuState(row.state),
        generation=row.generation,
        state_why=row.state_why,
    )


def quarantine(connection: Connection, stamp: Stamp, gpu: str, why: str) -> None:
    """Nothing is placed on the GPU any more, whatever it shows, until :func:`lift`; guests stay.

    NotFound for an unknown one; one that is quarantined already gets the new reason.
    """
    _set_state(connection, stamp, gpu, GpuState.QUARANTINED, why)


def is_quarantined(connection: Connection, gpu_id: str) -> bool:
    """Is it? NotFound for an unknown one."""
    return _state(connection, gpu_id) is GpuState.QUARANTINED


def lift_quarantine(connection: Connection, stamp: Stamp, gpu_id: str) -> None:
    """A quarantined GPU takes VMs again; Conflict for one that is not quarantined."""
    if _state(connection, gpu_id) is not GpuState.QUARANTINED:
        raise Conflict(f"{gpu_id} is not quarantined", next=f"vgpumgr gpu show {gpu_id}")
    _set_state(connection, stamp, gpu_id, GpuState.HEALTHY, "")


def _state(connection: Connection, gpu_id: str) -> GpuState:
    query = select(gpu.c.id, gpu.c.state).where(gpu.c.id == gpu_id).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        raise NotFound(f"there is no GPU {gpu_id}", next="vgpumgr gpu list")
    return _state_of(found)


@decodes(gpu)
def _state_of(row: Any) -> GpuState:
    return GpuState(row.state)


def _set_state(
    connection: Connection, stamp: Stamp, gpu_id: str, state: GpuState, why: str
) -> None:
    _state(connection, gpu_id)
    is_it = gpu.c.id == gpu_id
    before, host = connection.execute(select(gpu.c.generation, gpu.c.host).where(is_it)).one()
    connection.execute(
        update(gpu)
        .where(is_it)
        .values(state=state.value, state_why=printable(why), generation=before + 1)
    )
    record: dict[str, object] = {"event": f"gpu.{state.value}", "gpu": gpu_id, "host": host}
    audit_trail.write(
        connection, stamp, [{**record, "before": before, "after": before + 1, "detail": why}]
    )


Types = tuple[MdevType, ...]

# A number below 0 or of 17 digits; in a text it may be something else.
_MAYBE_ODD = re.compile(r"[:\[,] ?(?:-\d|\d{17})")
# Beside the fields of GpuFacts: the distinct type lists of its VFs, and which of them each VF has.
_LISTS, _WHICH = "vf_mdev_types", "vf_mdev_types_of"
# What schema 2 called them: the first name is a field of the facts now.
_OLD_LISTS, _OLD_WHICH = "vf_types", "vf_types_of"


def without_detail(facts: HostFacts) -> HostFacts:
    """A host's facts for its own row: which GPUs it has. What they show is in their rows."""
    return replace(facts, gpus=tuple(_identity(each) for each in facts.gpus))


def _identity(gpu: GpuFacts) -> GpuFacts:
    return GpuFacts(
        device=gpu.device,
        path=gpu.path,
        model=gpu.model,
        vendor_device=gpu.vendor_device,
        uuid=gpu.uuid,
        serial=gpu.serial,
    )


def dump_gpu(facts: GpuFacts) -> str:
    """A GPU's facts as text; a list of types that many VFs share is written once."""
    if not any(vf.mdev_types for vf in facts.vfs):
        return dump(facts)
    lists = tuple(dict.fromkeys(vf.mdev_types for vf in facts.vfs))
    number = {types: index for index, types in enumerate(lists)}
    return dump(
        {
            **as_object(facts),
            "vfs": [replace(vf, mdev_types=()) for vf in facts.vfs],
            _LISTS: lists,
            _WHICH: [number[vf.mdev_types] for vf in facts.vfs],
        }
    )


def load_gpu(text: str) -> GpuFacts:
    """The facts that :func:`dump_gpu` wrote; keys that are missing take defaults.

    Of facts out of range, as older versions kept them, what the GPU is remains: a look
    at its host puts them right.
    """
    data = json.loads(text)
    facts = _loaded(data)
    known = facts.scheduler is None or facts.scheduler in list(Scheduler)
    if known and in_range(text, data):
        return facts
    why = "what was kept of it is out of range, look at its host again"
    return replace(_identity(facts), health=GpuHealth.UNKNOWN, health_detail=why)


def in_range(text: str, data: object) -> bool:
    """Are all numbers of stored facts such as a probe may give? ``data`` is what ``text`` says."""
    return _MAYBE_ODD.search(text) is None or _all_in_range(data)


def _all_in_range(data: object) -> bool:
    if isinstance(data, dict):
        return all(map(_all_in_range, data.values()))
    if isinstance(data, list):
        return all(map(_all_in_range, data))
    return not isinstance(data, int) or 0 <= data < 2**53


def _loaded(data: dict[str, Any]) -> GpuFacts:
    if _OLD_WHICH in data:
        data |= {_LISTS: data.pop(_OLD_LISTS), _WHICH: data.pop(_OLD_WHICH)}
    facts = from_plain(GpuFacts, data)
    if _LISTS not in data:
        return facts
    lists = from_plain(tuple[Types, ...], data[_LISTS])
    vfs = zip(facts.vfs, data[_WHICH], strict=True)
    return replace(facts, vfs=tuple(replace(vf, mdev_types=lists[index]) for vf, index in vfs))


def gpu_supply(facts: GpuFacts) -> str:
    """A digest of what the GPU is and can make."""
    return digest(
        facts.device,
        facts.path,
        facts.model,
        facts.vendor_device,
        facts.numa_node,
        facts.memory_mib,
        facts.iommu_group,
        sorted(facts.group_devices),
        facts.boot_vga,
        sorted((each.type_id, each.name) for each in facts.mdev_types),
        facts.type_units,
        facts.siblings,
        facts.sriov_total,
        [(vf.number, vf.address) for vf in facts.vfs],
        sorted({(each.type_id, each.name) for vf in facts.vfs for each in vf.mdev_types}),
        facts.mig
        and (
            facts.mig.enabled,
            facts.mig.pending,
            [(each.profile_id, each.size, each.starts) for each in facts.mig.profiles],
        ),
        facts.mixed_size,
        sorted(facts.vgpu_capabilities),
        facts.module_id,
        facts.health if facts.unfit else GpuHealth.OK,
        *filter(None, [catalog.contradiction(facts), facts.mig and facts.mig.types]),
    )


def digest(*parts: object) -> str:
    """A short text that another one is compared with."""
    return sha256(dump(parts).encode()).hexdigest()[:32]


_LAYOUTS = (
    select(layout)
    .join(gpu, gpu.c.id == layout.c.gpu)
    .where(layout.c.host.in_(_ENROLLED))
    .order_by(layout.c.host, gpu.c.device, layout.c.gpu)
)
_LAYOUTS_OF_HOST = _LAYOUTS.where(layout.c.host == bindparam("in_host"))


def list_layouts(connection: Connection, host: str | None = None) -> tuple[LayoutRecord, ...]:
    """The layout last applied to each GPU of the enrolled hosts (or of one), by host and device."""
    query = _LAYOUTS if host is None else _LAYOUTS_OF_HOST
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
        connection.execute(insert(layout), [_layout_row(each) for each in records])


def _layout_row(record: LayoutRecord) -> dict[str, object]:
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


def settle_layouts(connection: Connection, stamp: Stamp, ended: Iterable[tuple[str, str]]) -> None:
    """Mark the layouts of these GPUs as reached by these tasks."""
    values = [{"in_gpu": gpu_id, "in_task": task_id, **stamp.values} for gpu_id, task_id in ended]
    _SETTLE.run(connection, values)

"""GPUs in the ledger: what a probe showed of each, their layouts, and quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, insert, select, update

from vgpumgr import catalog
from vgpumgr.model.codec import dump, load, printable
from vgpumgr.model.errors import Conflict, LedgerError, NotFound
from vgpumgr.model.gpu import GpuFacts, GpuHealth, GpuRecord, GpuState
from vgpumgr.model.layout import GpuLayout, LayoutRecord
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.ledger.audit_trail import Stamp, StateChange, of_layouts
from vgpumgr.store.ledger.gpu_health import load_health
from vgpumgr.store.ledger.gpu_texts import load_gpu
from vgpumgr.store.ledger.row_memo import RowMemo
from vgpumgr.store.schema import allocation, gpu, host, layout, task
from vgpumgr.store.schema.columns import decodes

# More slots than any board has; they are gone through one by one.
MOST_UNITS = 4096
_ENROLLED = select(host.c.name).where(host.c.removed_at.is_(None))
EVERY_GPU = (
    select(
        gpu.c.id,
        gpu.c.host,
        gpu.c.uuid,
        gpu.c.serial,
        gpu.c.facts,
        gpu.c.units,
        gpu.c.state,
        gpu.c.generation,
        gpu.c.state_why,
        gpu.c.health,
    )
    .where(gpu.c.host.in_(_ENROLLED))
    .order_by(gpu.c.host, gpu.c.device, gpu.c.id)
)
_OF_HOST = EVERY_GPU.where(gpu.c.host == bindparam("in_host"))


def list_gpus(connection: Connection, host: str | None = None) -> tuple[GpuRecord, ...]:
    """GPUs of enrolled hosts (of one with ``host``), by host and device."""
    query = EVERY_GPU if host is None else _OF_HOST
    return tuple(map(gpu_of, connection.execute(query, {"in_host": host}).all()))


@decodes(gpu)
def gpu_of(row: Any) -> GpuRecord:
    """The GPU of a row of ``EVERY_GPU``."""
    return _GPUS.of(row[0], *row)


def _gpu(
    id_: str,
    host: str,
    uuid: str | None,
    serial: str | None,
    facts: str,
    units: int,
    state: str,
    generation: int,
    state_why: str,
    health: str,
) -> GpuRecord:
    return GpuRecord(
        id=id_,
        host=host,
        facts=load_gpu(facts, uuid, serial),
        units=min(units, MOST_UNITS),
        state=GpuState(state),
        generation=generation,
        state_why=state_why,
        health=load_health(health),
    )


_GPUS = RowMemo(_gpu)


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
    columns = (row.gpu, row.host, row.layout, row.goal, row.operation, row.settled)
    return _RECORDS.of(row.gpu, *columns)


def _layout(
    gpu: str, host: str, layout: str, goal: str, operation: str, settled: bool
) -> LayoutRecord:
    return LayoutRecord(
        gpu=gpu,
        host=host,
        layout=layout,
        goal=load(GpuLayout, goal),
        operation=operation,
        settled=settled,
    )


_RECORDS = RowMemo(_layout)


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


# Another VM of the operation may be about to be made there: its task settles the layout.
_LEFT = (
    *_OWN,
    layout.c.settled.is_(False),
    ~exists().where(allocation.c.gpu == layout.c.gpu, allocation.c.released_at.is_(None)),
)
_FORGET = StateChange(delete(layout).where(*_LEFT), of_layouts("layout.forgotten", *_LEFT))


def forget_layouts(
    connection: Connection,
    stamp: Stamp,
    ended: Iterable[tuple[str, str]],
    before: Iterable[LayoutRecord],
) -> None:
    """Forget the layouts of these GPUs that these tasks did not reach and nobody waits for; the
    GPUs have those ``before`` again.
    """
    had = {each.gpu: each for each in before}
    for gpu_id, task_id in ended:
        values = {"in_gpu": gpu_id, "in_task": task_id, **stamp.values}
        if _FORGET.run(connection, values) and gpu_id in had:
            connection.execute(insert(layout), _layout_row(had[gpu_id]))

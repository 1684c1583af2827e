"""Hosts: enrol, change, remove; rows ↔ values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.fence import Fence
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import HostFacts, HostRecord, Membership
from vgpumgr.model.migration import MigrationAddress
from vgpumgr.store.audit import Stamp, of_gpus, write
from vgpumgr.store.codec import dump, load, printable
from vgpumgr.store.facts import without_detail
from vgpumgr.store.host_words import changed_event, changed_words
from vgpumgr.store.near import not_found
from vgpumgr.store.schema import allocation, gpu, host, vm
from vgpumgr.store.statements import Move
from vgpumgr.store.vms import place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """What an operator sets on a host, beside its name and address."""

    host_key: str = ""
    cordoned: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    cpu_overcommit: float = 4.0
    reserved_memory_mib: int = 1024
    accelerator: str = "auto"
    probe_only: bool = False
    migration: MigrationAddress | None = None
    draining: bool = False
    drain_to: tuple[str, ...] = ()
    maintenance: bool = False
    evacuated: bool = False
    fence: Fence | None = None
    settled_boot: str = ""
    membership: Membership = Membership.MEMBER


_OPEN = host.c.removed_at.is_(None)
_EVERY = select(host).where(_OPEN).order_by(host.c.name)
_NAMED = select(host).where(_OPEN, host.c.name == bindparam("in_host"))


def list_hosts(connection: Connection) -> tuple[HostRecord, ...]:
    """Every enrolled host, by name."""
    return tuple(_host(row) for row in connection.execute(_EVERY))


def get_host(connection: Connection, name: str) -> HostRecord:
    """One host; NotFound suggests near names."""
    row = connection.execute(_NAMED, {"in_host": name}).one_or_none()
    if row is None:
        names = connection.execute(select(host.c.name).where(_OPEN)).scalars()
        raise not_found("host", name, names)
    return _host(row)


def _host(row: Any) -> HostRecord:
    found = load(_Settings, row.settings)
    return HostRecord(
        name=row.name,
        address=row.address,
        host_key=found.host_key,
        cordoned=found.cordoned,
        labels=found.labels,
        cpu_overcommit=found.cpu_overcommit,
        reserved_memory_mib=found.reserved_memory_mib,
        accelerator=found.accelerator,
        probe_only=found.probe_only,
        migration=found.migration,
        draining=found.draining,
        drain_to=found.drain_to,
        maintenance=found.maintenance,
        evacuated=found.evacuated,
        fence=found.fence,
        settled_boot=found.settled_boot,
        membership=found.membership,
        generation=row.generation,
        facts=load(HostFacts, row.facts) if row.facts is not None else None,
        observed_at=row.observed_at,
        last_error=row.last_error,
    )


def settings(record: HostRecord) -> str:
    """What an operator sets on a host, as its row has it."""
    return dump(
        _Settings(
            host_key=record.host_key,
            cordoned=record.cordoned,
            labels=dict(record.labels),
            cpu_overcommit=record.cpu_overcommit,
            reserved_memory_mib=record.reserved_memory_mib,
            accelerator=record.accelerator,
            probe_only=record.probe_only,
            migration=record.migration,
            draining=record.draining,
            drain_to=record.drain_to,
            maintenance=record.maintenance,
            evacuated=record.evacuated,
            fence=record.fence,
            settled_boot=record.settled_boot,
            membership=record.membership,
        )
    )


def add_host(connection: Connection, record: HostRecord, stamp: Stamp) -> None:
    """Enrol; Conflict when the name or address is taken."""
    _refuse_taken(connection, record)
    try:
        connection.execute(
            insert(host).values(
                name=record.name,
                address=record.address,
                settings=settings(record),
                generation=record.generation,
                facts=dump(without_detail(record.facts)) if record.facts is not None else None,
                supply="",
                observed_at=record.observed_at,
                last_error=printable(record.last_error),
            )
        )
    except IntegrityError as error:
        raise Conflict(
            f"host {record.name} or its address was enrolled meanwhile",
            next="vgpumgr host list",
        ) from error
    detail = changed_words(HostRecord(name=record.name, address=""), record)
    joining = record.membership is Membership.JOINING
    event = "host.joining" if joining else "host.added"
    tell(connection, stamp, event, record, None, record.generation, detail)


def tell(
    connection: Connection,
    stamp: Stamp,
    event: str,
    record: HostRecord,
    before: int | None,
    after: int | None,
    detail: str = "",
) -> None:
    """Write what became of a host into the trail; ``before`` and ``after`` are generations."""
    told = {"event": event, "host": record.name, "before": before, "after": after}
    write(connection, stamp, [{**told, "detail": detail}])


def _refuse_taken(connection: Connection, record: HostRecord) -> None:
    taken = (host.c.name == record.name) | (host.c.address == record.address)
    for row in connection.execute(select(host.c.name, host.c.address).where(_OPEN, taken)):
        if row.name == record.name:
            raise Conflict(
                f"host {row.name} is already enrolled",
                why=f"its address is {row.address}",
                next=f"vgpumgr host show {row.name}, or choose another name",
            )
        raise Conflict(
            f"{record.address} is already enrolled",
            why=f"as host {row.name}",
            next=f"vgpumgr host show {row.name}",
        )


def update_host(connection: Connection, record: HostRecord, stamp: Stamp) -> None:
    """Write what an operator sets, if the row is still at ``record.generation``; raise it.

    What was observed stays. NotFound, StaleGeneration, or Conflict when the address is taken.
    """
    current = get_host(connection, record.name)
    try:
        changed = connection.execute(
            update(host)
            .where(_OPEN, host.c.name == record.name, host.c.generation == record.generation)
            .values(
                address=record.address,
                settings=settings(record),
                generation=record.generation + 1,
            )
        )
    except IntegrityError as error:
        raise Conflict(f"{record.address} is already enrolled", next="vgpumgr host list") from error
    if changed.rowcount != 1:
        raise StaleGeneration(
            f"host {record.name} changed since it was read",
            why=f"generation {current.generation} now, {record.generation} when read",
            next="the same command again",
        )
    read = record.generation
    what = changed_words(current, record)
    tell(connection, stamp, changed_event(current, record), record, read, read + 1, what)


def remove_host(connection: Connection, name: str, stamp: Stamp) -> None:
    """Close the host's row; Conflict while a VM or an allocation is on it."""
    record = get_host(connection, name)
    refuse_used(connection, name)
    connection.execute(update(host).where(_OPEN, host.c.name == name).values(removed_at=stamp.at))
    tell(connection, stamp, "host.removed", record, record.generation, None)
    there = (gpu.c.host == name, gpu.c.state != GpuState.MISSING.value)
    gone = update(gpu).values(state=GpuState.MISSING.value, generation=gpu.c.generation + 1)
    Move(gone.where(*there), of_gpus("gpu.missing", *there)).run(connection, stamp.values)


def refuse_used(connection: Connection, name: str) -> None:
    """Conflict while a VM or an allocation is on the host, or a VM on its way there."""
    vms = _count(connection, vm, name, vm.c.deleted_at.is_(None)) + _coming(connection, name)
    held = _count(connection, allocation, name, allocation.c.released_at.is_(None))
    if vms or held:
        raise Conflict(
            f"host {name} is in use",
            why=f"{vms} VMs and {held} allocations are on it",
            next=f"vgpumgr vm list, then delete those on {name}",
        )


def _coming(connection: Connection, name: str) -> int:
    """The VMs that are moving to the host."""
    moving = select(vm.c.moving_to).where(vm.c.deleted_at.is_(None), vm.c.moving_to.is_not(None))
    places = (place(text) for text in connection.execute(moving).scalars())
    return sum(each is not None and each.host == name for each in places)


def _count(connection: Connection, table: Any, name: str, open_: Any) -> int:
    query = select(func.count()).select_from(table).where(table.c.host == name, open_)
    return int(connection.execute(query).scalar_one())


def observation_failed(connection: Connection, name: str, error: str) -> None:
    """Remember why a probe failed; NotFound for a host that is not enrolled."""
    changed = connection.execute(
        update(host).where(_OPEN, host.c.name == name).values(last_error=printable(error))
    )
    if changed.rowcount != 1:
        get_host(connection, name)

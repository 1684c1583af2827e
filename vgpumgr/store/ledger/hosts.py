"""Hosts in the ledger: enrolment, changes, and removal."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from vgpumgr.model import formats
from vgpumgr.model.codec import dump, from_plain, printable
from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import ClaimFacts, HostFacts, HostRecord, Membership
from vgpumgr.model.operation import Reservation
from vgpumgr.store.database.faults import not_found
from vgpumgr.store.ledger.audit_trail import Stamp, StateChange, of_gpus, write
from vgpumgr.store.ledger.gpus import digest
from vgpumgr.store.ledger.host_texts import dump_host, load_host
from vgpumgr.store.ledger.images import forget_host
from vgpumgr.store.ledger.row_memo import RowMemo
from vgpumgr.store.ledger.vms import place
from vgpumgr.store.schema import allocation, gpu, host, task, vm
from vgpumgr.store.schema.columns import decodes

# What has a column of its own, or is what a look found; all else is what an operator sets.
_COLUMNS = frozenset({"name", "address", "generation", "facts", "observed_at", "last_error"})
_OUT_OF_RANGE = "what was kept of its last look is out of range"
_SETTINGS = tuple(each.name for each in fields(HostRecord) if each.name not in _COLUMNS)


def settings(record: HostRecord) -> str:
    """What an operator sets on a host, as its row has it."""
    return dump({name: getattr(record, name) for name in _SETTINGS})


@decodes(host)
def from_row(row: Any) -> HostRecord:
    """The value of a row of ``READ``."""
    return _HOSTS.of(row[0], *row)


def _record(
    name: str,
    address: str,
    settings: str,
    facts: str | None,
    generation: int,
    observed_at: float | None,
    last_error: str,
) -> HostRecord:
    seen = None if facts is None else _FACTS.of(name, facts)
    odd = facts is not None and seen is None
    return replace(
        _SET.of(name, name, settings),
        address=address,
        facts=seen,
        generation=generation,
        observed_at=observed_at,
        last_error=last_error or (_OUT_OF_RANGE if odd else ""),
    )


def _as_set(name: str, settings: str) -> HostRecord:
    return from_plain(HostRecord, {**json.loads(settings), "name": name, "address": ""})


# A look that shows nothing new, or an operator who changes a setting, leaves the other as it was.
_HOSTS, _SET, _FACTS = RowMemo(_record), RowMemo(_as_set), RowMemo(load_host)


# What a look writes, and what is compared otherwise.
_OBSERVED = frozenset({"name", "generation", "facts", "observed_at", "last_error", "membership"})
# A fence is a command, which may carry a password: the trail says no more than that it changed.
_SECRET = frozenset({"fence"})


def changed_event(before: HostRecord, after: HostRecord) -> str:
    """``host.cordoned`` or ``host.uncordoned`` where that changed, else ``host.changed``."""
    if before.cordoned == after.cordoned:
        return "host.changed"
    return "host.cordoned" if after.cordoned else "host.uncordoned"


def changed_words(before: HostRecord, after: HostRecord) -> str:
    """``cordoned; host_key: SHA256:a → SHA256:b``."""
    return "; ".join(_differences(before, after))


def _differences(before: HostRecord, after: HostRecord) -> Iterator[str]:
    for name in (field.name for field in fields(HostRecord) if field.name not in _OBSERVED):
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if isinstance(new, bool):
            yield name if new else f"not {name}"
        elif name in _SECRET:
            yield f"{name} {'removed' if new is None else 'set' if old is None else 'changed'}"
        else:
            yield f"{name}: {_text(old)} → {_text(new)}"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value)) or "none"
    return "none" if value in (None, "") else str(value)


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


# What our own work on a host moves (free memory of pools, huge pages in use, our domains, mdevs,
# vGPUs and GPU instances, counts of creatable types, bound drivers) is left out: the ledger
# accounts for it, and two plans must not fail each other by merely looking.


def host_supply(facts: HostFacts, fleet: str) -> str:
    """A digest of the host's CPUs, memory, networks, and what foreigners use."""
    claims = [claim for claim in facts.claims if claim.fleet == fleet]
    ours = {claim.unit for claim in claims}
    foreign_domains = [
        domain
        for domain in facts.domains
        if domain.ownership is None or domain.ownership.fleet != fleet
    ]
    return digest(
        facts.versions,
        facts.cpus,
        facts.memory_mib,
        facts.iommu,
        facts.kvm,
        [replace(node, hugepages_free={}) for node in facts.numa],
        sorted(mdev.uuid for mdev in facts.mdevs if formats.mdev_claim(mdev.uuid) not in ours),
        sorted(_foreign_vgpus(facts, ours)),
        sorted(_standing_instances(facts, claims)),
        sorted(_partitions(facts, ours)),
        facts.cpu_model,
        sorted(foreign_domains, key=lambda domain: domain.name),
        sorted((pool.name, pool.path, pool.active, pool.source) for pool in facts.pools),
        sorted(facts.networks),
        sorted(facts.bridges),
        sorted(facts.filters),
        sorted(facts.features),
        *([sorted(_nic_vfs(facts))] if facts.nics else []),
        sorted(unknown.part for unknown in facts.unknown),
    )


def _nic_vfs(facts: HostFacts) -> Iterator[str]:
    """What VMs may have of NICs: drivers of VFs come and go with VMs of ours."""
    for nic in facts.nics:
        yield f"{nic.name} {nic.device} {nic.up}"
        yield from (f"{vf.address} {vf.busy}" for vf in nic.vfs)


def _foreign_vgpus(facts: HostFacts, ours: Collection[str]) -> Iterator[str]:
    """VFs that carry a vGPU of somebody else."""
    for board in facts.gpus:
        for vf in board.vfs:
            carried = vf.vendor.type_id if vf.vendor else 0
            if carried != 0 and formats.pci_claim(vf.address) not in ours:
                yield f"{vf.address} {carried}"


def _standing_instances(facts: HostFacts, claims: list[ClaimFacts]) -> Iterator[str]:
    """GPU instances that no vGPU of ours brought with it, and GPUs whose could not be read."""
    made = {_instance(claim.wanted.get("instance")) for claim in claims}
    for board in facts.gpus:
        if board.mig is None:
            continue
        if board.mig.instances is None:
            yield f"{board.device} unknown"
        for each in board.mig.instances or ():
            if (board.device, each.profile_id, each.start) not in made:
                yield f"{board.device} {each.profile_id} {each.start}"


def _instance(wanted: object) -> tuple[object, ...]:
    """The instance of a claim that makes one (docs/helper-protocol.md, Claim)."""
    if isinstance(wanted, dict) and wanted.get("make"):
        return wanted.get("gpu"), wanted.get("profile_id"), wanted.get("start")
    return ()


def _partitions(facts: HostFacts, ours: Collection[str]) -> Iterator[str]:
    """NVSwitch partitions, and which of them somebody else has active."""
    for each in facts.fabric.partitions if facts.fabric else ():
        taken = each.active and formats.fabric_claim(each.id) not in ours
        yield f"{each.id} {each.gpus} {taken}"


_OPEN = host.c.removed_at.is_(None)
READ = select(
    host.c.name,
    host.c.address,
    host.c.settings,
    host.c.facts,
    host.c.generation,
    host.c.observed_at,
    host.c.last_error,
)
_EVERY = READ.where(_OPEN).order_by(host.c.name)
_NAMED = READ.where(_OPEN, host.c.name == bindparam("in_host"))


def list_hosts(connection: Connection) -> tuple[HostRecord, ...]:
    """Every enrolled host, by name."""
    return tuple(map(from_row, connection.execute(_EVERY).all()))


def list_addresses(connection: Connection) -> Mapping[str, str]:
    """The address of every enrolled host, by its name."""
    query = select(host.c.name, host.c.address).where(_OPEN)
    return {row.name: row.address for row in connection.execute(query)}


_GENERATIONS = select(
    select(func.sum(host.c.generation)).scalar_subquery(),
    select(func.sum(gpu.c.generation)).scalar_subquery(),
)


def supply_version(connection: Connection) -> tuple[int | None, int | None]:
    """Equal as long as no host and no GPU offers anything else: generations only grow."""
    hosts, gpus = connection.execute(_GENERATIONS).one()
    return hosts, gpus


def get_host(connection: Connection, name: str) -> HostRecord:
    """One host; NotFound suggests near names."""
    row = connection.execute(_NAMED, {"in_host": name}).one_or_none()
    if row is None:
        names = connection.execute(select(host.c.name).where(_OPEN)).scalars()
        raise not_found("host", name, names)
    return from_row(row)


def namesakes(connection: Connection, name: str, address: str) -> tuple[HostRecord, ...]:
    """The enrolled hosts of that name or address."""
    borne = (host.c.name == name) | (host.c.address == address)
    return tuple(map(from_row, connection.execute(_EVERY.where(borne)).all()))


def add_host(connection: Connection, stamp: Stamp, record: HostRecord) -> None:
    """Enrol; Conflict when the name or address is taken."""
    _refuse_taken(connection, record)
    try:
        connection.execute(
            insert(host).values(
                name=record.name,
                address=record.address,
                settings=settings(record),
                generation=record.generation,
                facts=dump_host(record.facts) if record.facts is not None else None,
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
    record_host_event(connection, stamp, event, record, None, record.generation, detail)


def record_host_event(
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


def update_host(connection: Connection, stamp: Stamp, record: HostRecord) -> None:
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
    record_host_event(
        connection, stamp, changed_event(current, record), record, read, read + 1, what
    )


def remove_host(connection: Connection, stamp: Stamp, name: str) -> None:
    """Close the host's row; Conflict while a VM or an allocation is on it."""
    record = get_host(connection, name)
    refuse_used(connection, name)
    connection.execute(update(host).where(_OPEN, host.c.name == name).values(removed_at=stamp.at))
    record_host_event(connection, stamp, "host.removed", record, record.generation, None)
    there = (gpu.c.host == name, gpu.c.state != GpuState.MISSING.value)
    gone = update(gpu).values(state=GpuState.MISSING.value, generation=gpu.c.generation + 1)
    StateChange(gone.where(*there), of_gpus("gpu.missing", *there)).run(connection, stamp.values)
    forget_host(connection, stamp, name)


def observation_failed(connection: Connection, name: str, error: str) -> None:
    """Remember why a probe failed; NotFound for a host that is not enrolled."""
    changed = connection.execute(
        update(host).where(_OPEN, host.c.name == name).values(last_error=printable(error))
    )
    if changed.rowcount != 1:
        get_host(connection, name)


def begin_membership(connection: Connection, stamp: Stamp, start: Reservation) -> None:
    """Add the hosts that join, mark those that leave; Conflict where they cannot."""
    for record in start.joining:
        add_host(connection, stamp, replace(record, membership=Membership.JOINING))
    for name in start.leaving:
        refuse_used(connection, name)
        _mark(connection, stamp, name, Membership.LEAVING, "host.leaving")
        # Whoever has planned something for its GPUs plans again.
        raised = update(gpu).where(gpu.c.host == name).values(generation=gpu.c.generation + 1)
        connection.execute(raised)


def end_membership(connection: Connection, stamp: Stamp, task_id: str, *, enrolled: bool) -> None:
    """The host that a task is about is in the fleet, or out of it; saying it twice is no error."""
    name = connection.execute(select(task.c.host).where(task.c.id == task_id)).scalar_one()
    known = connection.execute(select(host.c.id).where(_OPEN, host.c.name == name)).first()
    before = get_host(connection, name).membership if known else Membership.MEMBER
    if before is Membership.MEMBER:
        return
    if enrolled:
        event = "host.added" if before is Membership.JOINING else "host.stayed"
        _mark(connection, stamp, name, Membership.MEMBER, event)
    else:
        remove_host(connection, stamp, name)


def _mark(
    connection: Connection, stamp: Stamp, name: str, membership: Membership, event: str
) -> None:
    record = get_host(connection, name)
    after = replace(record, membership=membership, generation=record.generation + 1)
    values = {"settings": settings(after), "generation": after.generation}
    connection.execute(update(host).where(_OPEN, host.c.name == name).values(**values))
    record_host_event(connection, stamp, event, after, record.generation, after.generation)

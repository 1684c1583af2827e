"""The guards of the ledger: constraints, generations, the freeze."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, text

from tests.guards.registry import Guard, Happened, Place, patched, wrapped
from tests.unit.store.values import SLOTS, allocation, board, facts, start, vm
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.quota import Quota
from vgpumgr.model.vm import Terms
from vgpumgr.store import SqlLedger, open_ledger
from vgpumgr.store.ledger import reservations
from vgpumgr.store.schema import gpu, host, metadata


def ledger(place: Place) -> SqlLedger:
    """One host, two GPUs."""
    made = open_ledger(place.ledger)
    made.add_host(HostRecord(name="h1", address="root@h1"))
    gpus = [board("h1", number) for number in (1, 2)]
    made.observe(facts("h1", *gpus), {each.device: SLOTS for each in gpus}, 100.0)
    return made


def accepted(found: SqlLedger, *reservations: Reservation) -> int:
    """How many of them the ledger took."""
    taken = 0
    for each in reservations:
        try:
            found.reserve(each)
        except VgpumgrError:
            continue
        taken += 1
    return taken


def twice(things: Iterable[Hashable]) -> bool:
    """Is one of them there more than once?"""
    return any(times > 1 for times in Counter(things).values())


def _makes(name: str, on: Any, slots: Iterable[int], device: str = "", **more: Any) -> Reservation:
    desk = vm(name)
    return start(allocation(desk, on, slots, device), vms=[desk], **more)


def two_owners_of_a_unit(place: Place) -> None:
    found = ledger(place)
    one = found.gpus()[0]
    accepted(found, _makes("a", one, range(4)), _makes("b", one, range(3, 7)))
    _unless(found, lambda each: ((each.gpu, slot) for slot in each.slots))


def two_owners_of_a_device(place: Place) -> None:
    found = ledger(place)
    one, other = found.gpus()
    accepted(found, _makes("a", one, [0], "0000:41:00.4"), _makes("b", other, [0], "0000:41:00.4"))
    _unless(found, lambda each: [(each.host, each.device)])


def two_plans_of_one_gpu(place: Place) -> None:
    """Both were made from the same reading of it, and take the same room."""
    found = ledger(place)
    one = found.gpus()[0]
    read = {one.id: one.generation}
    accepted(
        found,
        _makes("a", one, range(4), gpu_generations=read),
        _makes("b", one, range(4), gpu_generations=read),
    )
    _unless(found, lambda each: ((each.gpu, slot) for slot in each.slots))


def two_plans_of_one_host(place: Place) -> None:
    """Each of the two VMs needs all of its memory; neither has a GPU."""
    found = ledger(place)
    read = {"h1": found.host("h1").generation}
    taken = accepted(
        found,
        start(vms=[vm("a")], host_generations=read),
        start(vms=[vm("b")], host_generations=read),
    )
    found.close()
    if taken > 1:
        raise Happened("the host's memory was given to two VMs")


def two_changes_of_one_vm(place: Place) -> None:
    """The second was made from a record that the first has changed."""
    found = ledger(place)
    found.reserve(start(vms=[vm("a")]))
    read = found.vm("a")
    for cpus in (8, 4):
        spec = replace(read.spec, vcpus=cpus)
        changed = replace(read, spec=spec, generation=read.generation + 1)
        accepted(found, start(changed_vms=(changed,)))
    cpus = found.vm("a").spec.vcpus
    found.close()
    if cpus != 8:
        raise Happened("a change was written over unseen")


def an_allocation_while_frozen(place: Place) -> None:
    """The ledger is a copy of yesterday: the unit has an owner that it does not know."""
    found = ledger(place)
    found.freeze("the hosts' claims are newer")
    taken = accepted(found, _makes("a", found.gpus()[0], range(4)))
    found.close()
    if taken:
        raise Happened("a unit was given away by a ledger that went back in time")


def more_than_a_tenant_may_hold(place: Place) -> None:
    """Each of the two VMs is within the quota, and they take different units."""
    found = ledger(place)
    found.set_quota(Quota(tenant="default", vms=1))
    one, other = found.gpus()
    taken = accepted(found, _makes("a", one, range(4)), _makes("b", other, range(4)))
    found.close()
    if taken > 1:
        raise Happened("a tenant holds more than its quota")


def two_starts_of_one_entry(place: Place) -> None:
    """Cancelled between the plan and the reservation, or started by another controller."""
    found = ledger(place)
    spec = replace(vm("a").spec, queue=Terms())
    found.enqueue([QueueEntry(id="q", vm=spec, state=QueueState.WAITING, since=1.0)])
    made = vm("a")
    moved = QueueMoved(
        entry="q", before=QueueState.WAITING, state=QueueState.RUNNING, vm_id=made.id
    )
    found.cancel_queued(["a"])
    taken = accepted(found, start(vms=[made], queue=(moved,)))
    found.close()
    if taken:
        raise Happened("a VM was made that nobody asks for any more")


def _unless(found: SqlLedger, things: Callable[[Allocation], Iterable[Hashable]]) -> None:
    held = [thing for each in found.allocations() for thing in things(each)]
    found.close()
    if twice(held):
        raise Happened(f"two owners of one of {held}")


def _made(change: Callable[[Any], object]) -> Any:
    """A removal: ledgers made meanwhile are changed by ``change``, which gets a connection."""

    def wrap(create: Any) -> Any:
        def creating(connection: Any, *rest: Any) -> None:
            create(connection, *rest)
            change(connection)

        return creating

    return wrapped(metadata, "create_all", wrap)


def _unit_without_key(connection: Any) -> None:
    columns = [Column("gpu_id", Text), Column("kind", Text), Column("slot", Integer)]
    plain = Table("unit", MetaData(), *columns, Column("allocation_id", Text))
    connection.execute(text("DROP TABLE unit"))
    plain.create(connection)


_no_unit_key = _made(_unit_without_key)
_no_device_index = _made(lambda c: c.execute(text("DROP INDEX allocation_device_once")))


def _without_generations_of(table: Table) -> Any:
    def wrap(compare: Any) -> Any:
        def comparing(connection: Any, compared: Any, *rest: Any) -> None:
            if compared.table != table.name:
                compare(connection, compared, *rest)

        return comparing

    return wrapped(reservations, "_raise_generations", wrap)


_no_gpu_generation = _without_generations_of(gpu)
_no_host_generation = _without_generations_of(host)


def _as_if_read_now(change: Any) -> Any:
    """The comparison always finds what it expects."""

    def changing(connection: Any, changed: Any) -> Any:
        now = connection.execute(text("SELECT id, generation FROM vm"))
        current = {row.id: row.generation for row in now}
        return change(
            connection,
            [replace(each, generation=current[each.id] + 1) for each in changed],
        )

    return changing


GUARDS = (
    Guard(
        "UNIQUE(unit)",
        "store/schema/vm_tables.py: unit",
        "one unit, two owners",
        _no_unit_key,
        two_owners_of_a_unit,
        (_no_device_index, _no_gpu_generation, _no_host_generation),
        server_too=True,
    ),
    Guard(
        "UNIQUE(device)",
        "store/schema/vm_tables.py: allocation_device_once",
        "one device, two owners",
        _no_device_index,
        two_owners_of_a_device,
        (_no_unit_key, _no_gpu_generation, _no_host_generation),
        server_too=True,
    ),
    Guard(
        "GPU generation",
        "store/ledger/reservations.py: _raise_generations",
        "two plans of one reading both win",
        _no_gpu_generation,
        two_plans_of_one_gpu,
        (_no_unit_key, _no_device_index, _no_host_generation),
        server_too=True,
    ),
    Guard(
        "host generation",
        "store/ledger/reservations.py: _raise_generations",
        "a host's memory given twice",
        _no_host_generation,
        two_plans_of_one_host,
        (_no_unit_key, _no_device_index, _no_gpu_generation),
        server_too=True,
    ),
    Guard(
        "VM generation",
        "store/ledger/vms.py: change_vms",
        "a change is lost",
        wrapped(reservations, "change_vms", _as_if_read_now),
        two_changes_of_one_vm,
        (_no_gpu_generation, _no_host_generation),
        server_too=True,
    ),
    Guard(
        "freeze",
        "store/ledger/epoch.py: refuse_frozen",
        "an old copy of the ledger gives units away",
        patched(reservations, "refuse_frozen", lambda *_: None),
        an_allocation_while_frozen,
        (_no_unit_key, _no_device_index, _no_gpu_generation, _no_host_generation),
        server_too=True,
    ),
    Guard(
        "quota",
        "store/ledger/quotas.py: within_quotas",
        "a tenant holds more than it may",
        patched(reservations, "within_quotas", lambda *_: nullcontext()),
        more_than_a_tenant_may_hold,
        (_no_unit_key, _no_device_index, _no_gpu_generation, _no_host_generation),
        server_too=True,
    ),
    Guard(
        "queue entry",
        "store/ledger/queue.py: move_entries",
        "a cancelled VM is made",
        patched(reservations, "move_entries", lambda *_: None),
        two_starts_of_one_entry,
        (_no_gpu_generation, _no_host_generation),
        server_too=True,
    ),
)

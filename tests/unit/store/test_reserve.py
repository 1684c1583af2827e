"""reserve(): one transaction, and the database is the referee."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import func, select, update

from tests.unit.store.values import SLOTS, allocation, board, end, fleet, see, start, task, vm
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import Conflict, LedgerError, NotFound, StaleGeneration, VgpumgrError
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import VmState
from vgpumgr.model.vm_devices import CloudInit, DiskSpec, NicSpec
from vgpumgr.store import SqlLedger
from vgpumgr.store.schema import metadata, unit
from vgpumgr.store.schema import vm as vm_table


def rows(ledger: SqlLedger) -> dict[str, int]:
    """How many rows each table has."""
    with ledger._database.read() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }


def refused(ledger: SqlLedger, reservation: Reservation, kind: type[VgpumgrError]) -> VgpumgrError:
    """The error of a reservation that wrote nothing at all."""
    before = (rows(ledger), ledger.hosts(), ledger.gpus(), ledger.vms(), ledger.allocations())
    with pytest.raises(kind) as caught:
        ledger.reserve(reservation)
    after = (rows(ledger), ledger.hosts(), ledger.gpus(), ledger.vms(), ledger.allocations())
    assert after == before
    return caught.value


def test_everything_of_a_reservation_comes_back(url: str) -> None:
    ledger = fleet(url)
    [gpu] = ledger.gpus()
    desk = vm("desk", cpus=(2, 3), numa_node=1)
    desk = replace(
        desk,
        spec=replace(
            desk.spec,
            disks=(DiskSpec(size_bytes=1 << 40),),
            nics=(NicSpec(bridge="br0"),),
            cloud_init=CloudInit(user_data="#cloud-config\nä"),
            labels={"team": "<&>"},
        ),
    )
    whole = allocation(desk, gpu, range(SLOTS))
    made = start(whole, vms=[desk])
    ledger.reserve(made)
    assert ledger.vms() == (desk,)
    assert ledger.vm("desk") == desk
    assert ledger.allocations() == (whole,)
    assert replace(ledger.operation(made.operation.id), worker="", method="") == made.operation
    assert ledger.tasks(made.operation.id) == made.tasks
    assert rows(ledger)["unit"] == SLOTS
    ledger.close()


def test_vms_are_listed_by_name(url: str) -> None:
    ledger = fleet(url)
    ledger.reserve(start(vms=[vm(name) for name in ("b", "c", "a")]))
    assert [each.name for each in ledger.vms()] == ["a", "b", "c"]
    with pytest.raises(NotFound) as caught:
        ledger.vm("bb")
    assert "did you mean b?" in caught.value.why
    ledger.close()


def test_generations_given_are_compared_and_raised(url: str) -> None:
    ledger = fleet(url, ["h1", "h2"], gpus=2)
    gpu = ledger.gpus("h1")[0]
    host = ledger.host("h1")
    same_reading = {
        "gpu_generations": {gpu.id: gpu.generation},
        "host_generations": {"h1": host.generation},
    }
    ledger.reserve(start(vms=[vm("a")], **same_reading))
    raised = [each.generation for each in ledger.gpus("h1")]
    assert raised == [gpu.generation + 1, gpu.generation]
    assert [each.generation for each in ledger.hosts()] == [host.generation + 1, host.generation]
    for one in same_reading:
        error = refused(ledger, start(vms=[vm("b")], **{one: same_reading[one]}), StaleGeneration)
        assert "changed since it was read" in str(error)
    ledger.close()


def test_a_gpu_or_host_that_is_gone_is_stale(url: str) -> None:
    ledger = fleet(url)
    generation = ledger.host("h1").generation
    refused(ledger, start(gpu_generations={"gpu-00000000": 1}), StaleGeneration)
    ledger.remove_host("h1")
    refused(ledger, start(host_generations={"h1": generation}), StaleGeneration)
    ledger.close()


def test_a_unit_has_one_owner(url: str) -> None:
    """Without any generation given, the unit itself referees."""
    ledger = fleet(url)
    [gpu] = ledger.gpus()
    first, second = vm("first"), vm("second")
    ledger.reserve(start(allocation(first, gpu, [0, 1]), vms=[first]))
    late = start(
        allocation(second, gpu, [2]),
        allocation(second, gpu, [1]),
        vms=[second],
        host_generations={},
    )
    error = refused(ledger, late, StaleGeneration)
    assert isinstance(error, StaleGeneration)
    assert gpu.id in error.why
    ledger.close()


def test_a_device_of_a_host_has_one_owner(url: str) -> None:
    ledger = fleet(url, ["h1", "h2"], gpus=2)
    here, there = ledger.gpus("h1"), ledger.gpus("h2")
    first, second, third = vm("first"), vm("second"), vm("third", "h2")
    whole = here[0].facts.device
    made = start(allocation(first, here[0], [0], whole), vms=[first])
    ledger.reserve(made)
    late = start(allocation(second, here[1], [0], whole), vms=[second])
    refused(ledger, late, StaleGeneration)
    ledger.reserve(start(allocation(third, there[0], [0], whole), vms=[third]))
    end(ledger, made)
    ledger.reserve(late)
    assert {each.vm for each in ledger.allocations()} == {"second", "third"}
    ledger.close()


@pytest.mark.parametrize(
    ("slots", "kind"),
    [((SLOTS,), StaleGeneration), ((-1,), StaleGeneration), ((), LedgerError)],
)
def test_an_allocation_takes_units_that_its_gpu_has(
    url: str, slots: tuple[int, ...], kind: type[VgpumgrError]
) -> None:
    ledger = fleet(url)
    desk = vm("desk")
    refused(ledger, start(allocation(desk, ledger.gpus()[0], slots), vms=[desk]), kind)
    ledger.close()


def test_a_vm_name_is_taken_until_the_vm_is_deleted(url: str) -> None:
    ledger = fleet(url)
    first = start(vms=[vm("desk")])
    ledger.reserve(first)
    error = refused(ledger, start(vms=[vm("other"), vm("desk")]), Conflict)
    assert not isinstance(error, StaleGeneration)
    assert "desk" in error.why
    end(ledger, first)
    ledger.reserve(start(vms=[vm("desk")]))
    assert len(ledger.vms()) == 1
    ledger.close()


def test_a_name_twice_in_one_reservation_is_a_conflict(url: str) -> None:
    ledger = fleet(url)
    refused(ledger, start(vms=[vm("desk"), vm("desk")]), Conflict)
    ledger.close()


def test_an_operation_id_is_used_once(url: str) -> None:
    ledger = fleet(url)
    made = start()
    ledger.reserve(made)
    refused(ledger, replace(made, vms=(vm("new"),)), LedgerError)
    ledger.close()


# -- changed VMs --------------------------------------------------------------------------------


def test_a_changed_spec_carries_the_next_generation(url: str) -> None:
    ledger = fleet(url)
    ledger.reserve(start(vms=[vm("desk")]))
    read = ledger.vm("desk")
    changed = replace(read, spec=replace(read.spec, vcpus=8), generation=read.generation + 1)
    ledger.reserve(start(changed_vms=(changed,)))
    assert ledger.vm("desk") == changed
    stale = replace(changed, spec=replace(read.spec, vcpus=16))
    refused(ledger, start(changed_vms=(stale,)), StaleGeneration)
    ledger.close()


def test_of_two_deletions_from_one_reading_the_second_is_refused(url: str) -> None:
    ledger = fleet(url)
    ledger.reserve(start(vms=[vm("desk")]))
    leaving = replace(ledger.vm("desk"), state=VmState.DELETING)
    ledger.reserve(start(changed_vms=(leaving,)))
    assert ledger.vm("desk") == replace(leaving, generation=leaving.generation + 1)
    refused(ledger, start(changed_vms=(leaving,)), StaleGeneration)
    ledger.close()


def test_a_spec_that_an_older_vgpumgr_wrote_is_the_same_spec(url: str) -> None:
    """It left out the fields that it did not know."""
    ledger, made = fleet(url), vm("web")
    ledger.reserve(start(vms=[made]))
    old = json.dumps({"name": "web", "vcpus": made.spec.vcpus, "memory_mib": made.spec.memory_mib})
    with ledger._database.write() as connection:
        connection.execute(update(vm_table).values(spec=old))
    before = ledger.vm("web")
    ledger.reserve(start(changed_vms=(replace(before, state=VmState.MIGRATING),)))
    assert ledger.vm("web").generation == before.generation + 1
    assert ledger.audit(vm="web", event="vm.migrating")[0].detail == ""
    ledger.close()


def test_a_deleted_vm_cannot_be_changed(url: str) -> None:
    ledger = fleet(url)
    made = start(vms=[vm("desk")])
    ledger.reserve(made)
    read = ledger.vm("desk")
    end(ledger, made)
    refused(ledger, start(changed_vms=(read,)), StaleGeneration)
    ledger.close()


def test_released_allocations_stay_as_history_and_their_units_go(url: str) -> None:
    ledger = fleet(url)
    [gpu] = ledger.gpus()
    desk = vm("desk")
    made = start(allocation(desk, gpu, [3, 4]), vms=[desk])
    ledger.reserve(made)
    end(ledger, made)
    assert ledger.allocations() == ledger.vms() == ()
    [closed] = ledger.allocations(released=True)
    assert closed == replace(made.allocations[0], state=AllocationState.RELEASED)
    with ledger._database.read() as connection:
        assert connection.execute(select(unit)).all() == []
    assert rows(ledger)["vm"] == 1
    ledger.close()


def test_a_bulk_order_is_one_commit(url: str) -> None:
    """1,000 VMs with 4 units and 4 steps each; measured 0.3 s on two cores, most of it JSON."""
    ledger = fleet(url, [f"h{n:03}" for n in range(63)], gpus=8)
    gpus = ledger.gpus()
    vms, allocations, tasks = [], [], []
    for number in range(1000):
        gpu = gpus[number // 2]
        each = vm(f"vm-{number:04}", gpu.host)
        vms.append(each)
        allocations.append(allocation(each, gpu, range(4 * (number % 2), 4 * (number % 2) + 4)))
        tasks.append(task(each, "bulk", steps=4))
    bulk = start(
        *allocations,
        vms=vms,
        tasks=tuple(tasks),
        gpu_generations={gpu.id: gpu.generation for gpu in gpus},
        host_generations={host.name: host.generation for host in ledger.hosts()},
    )
    bulk = replace(bulk, operation=replace(bulk.operation, id="bulk"))
    ledger.reserve(bulk)
    counted = rows(ledger)
    assert {name: counted[name] for name in ("vm", "allocation", "unit", "task", "step")} == {
        "vm": 1000,
        "allocation": 1000,
        "unit": 4000,
        "task": 1000,
        "step": 4000,
    }
    assert len(ledger.vms()) == 1000
    ledger.close()


def test_a_new_supply_between_plan_and_reserve_is_noticed(url: str) -> None:
    ledger = fleet(url)
    [gpu] = ledger.gpus()
    see(ledger, "h1")
    desk = vm("desk")
    planned = start(
        allocation(desk, gpu, [0]), vms=[desk], gpu_generations={gpu.id: gpu.generation}
    )
    refused(ledger, planned, StaleGeneration)
    see(ledger, "h1", board("h1", 1))
    now = ledger.gpus()[0].generation
    ledger.reserve(replace(planned, gpu_generations={gpu.id: now}))
    ledger.close()

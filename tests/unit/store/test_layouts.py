"""Virtual functions have one owner; a GPU's layout is replaced with its generation and settled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select

from tests.unit.store.test_reserve import end, refused
from tests.unit.store.values import allocation, board, fleet, see, start, task, vm
from vgpumgr.model.allocation import Allocation, InstancePart
from vgpumgr.model.errors import LedgerError, StaleGeneration
from vgpumgr.model.gpu import GpuRecord, MdevType, VendorVgpu, VfFacts
from vgpumgr.model.layout import GpuLayout, InstanceGoal, LayoutRecord, Scheduler
from vgpumgr.model.operation import Reservation, TaskMoved, TaskState
from vgpumgr.model.vm import VmRecord
from vgpumgr.store import SqlLedger
from vgpumgr.store.schema import unit

INSTANCE = InstancePart(
    gpu="0000:41:00.0", profile="1g.10gb", profile_id=19, start=2, size=1, make=False
)
GOAL = GpuLayout(
    mig=True,
    vfs=-1,
    instances=(InstanceGoal(profile="3g.40gb", start=4, compute=("1c.3g.40gb",)),),
    scheduler=Scheduler.FIXED_SHARE,
)


def on_vf(owner: VmRecord, gpu: GpuRecord, vf: int, slot: int) -> Allocation:
    held = allocation(owner, gpu, [slot], f"{gpu.facts.device[:-1]}{vf}")
    return replace(held, framework="vfio-vf", parent="", vf=vf)


def test_every_part_of_an_allocation_comes_back(url: str) -> None:
    ledger = fleet(url)
    desk, [gpu] = vm("desk"), ledger.gpus()
    plain = allocation(desk, gpu, [0])
    full = replace(
        on_vf(desk, gpu, 4, 1),
        instance=INSTANCE,
        placement_id=8,
        frame_rate_limiter=False,
        partition=12,
    )
    ledger.reserve(start(plain, full, vms=[desk]))
    assert set(ledger.allocations()) == {plain, full}
    ledger.close()


def test_a_virtual_function_has_one_owner(url: str) -> None:
    """Other slots, another device name, no generation: the VF's own row referees."""
    ledger = fleet(url, gpus=2)
    gpu, other = ledger.gpus()
    first, second = vm("first"), vm("second")
    made = start(on_vf(first, gpu, 4, 0), vms=[first])
    ledger.reserve(made)
    late = start(replace(on_vf(second, gpu, 4, 5), device="0000:41:09.9"), vms=[second])
    error = refused(ledger, late, StaleGeneration)
    assert isinstance(error, StaleGeneration)
    assert gpu.id in error.why
    elsewhere = vm("elsewhere")
    ledger.reserve(start(on_vf(elsewhere, other, 4, 0), vms=[elsewhere]))
    end(ledger, made)
    ledger.reserve(late)
    with ledger._database.read() as connection:
        taken = connection.execute(select(unit.c.slot).where(unit.c.kind == "vf")).scalars().all()
    assert taken == [4, 4]
    ledger.close()


def test_a_vf_alone_is_no_allocation(url: str) -> None:
    """Without a slot it would not keep the whole GPU from being given away."""
    ledger = fleet(url)
    desk, [gpu] = vm("desk"), ledger.gpus()
    refused(ledger, start(replace(on_vf(desk, gpu, 4, 0), slots=()), vms=[desk]), LedgerError)
    ledger.close()


def test_the_number_of_a_vf_is_no_memory_slot(url: str) -> None:
    """A GPU of 8 slots whose VF 31 is taken still has 8 slots, and can lose its VFs."""
    ledger = fleet(url)
    desk, [gpu] = vm("desk"), ledger.gpus()
    ledger.reserve(start(on_vf(desk, gpu, 31, 0), vms=[desk]))
    see(ledger, "h1", board("h1", 1, vfs=vfs(32)))
    assert ledger.gpus()[0].units == gpu.units
    ledger.close()


# -- a GPU with VFs is one GPU ----------------------------------------------------------------


def vfs(count: int, driver: str = "nvidia") -> tuple[VfFacts, ...]:
    types = (MdevType(type_id="nvidia-557", name="NVIDIA A40-1Q", available=1),)
    return tuple(
        VfFacts(
            number=n,
            address=f"0000:41:0{n // 8}.{n % 8}",
            driver=driver,
            iommu_group=100 + n,
            reset_methods=("flr",),
            mdev_types=types if n % 2 else (replace(types[0], available=0),),
        )
        for n in range(count)
    )


def test_vfs_come_and_go_and_the_gpu_stays_the_same(url: str) -> None:
    ledger = fleet(url, gpus=2)
    ids = [gpu.id for gpu in ledger.gpus()]
    for count in (32, 0, 16):
        see(ledger, "h1", board("h1", 1, vfs=vfs(count)), board("h1", 2))
        found = ledger.gpus()
        assert [gpu.id for gpu in found] == ids
        assert [len(gpu.facts.vfs) for gpu in found] == [count, 0]
    assert [gpu.generation for gpu in found] == [4, 1]
    ledger.close()


def test_the_types_of_each_vf_come_back_and_are_kept_once(url: str) -> None:
    ledger = fleet(url)
    many = tuple(
        MdevType(type_id=f"nvidia-{n}", name=f"NVIDIA A40-{n}Q", available=1) for n in range(24)
    )
    mixed = tuple(replace(vf, mdev_types=many if vf.number else ()) for vf in vfs(32))
    seen = board("h1", 1, vfs=mixed)
    see(ledger, "h1", seen)
    assert ledger.gpus()[0].facts == seen
    with ledger._database.read() as connection:
        [text] = connection.exec_driver_sql("SELECT facts FROM gpu").scalars()
    assert text.count('"nvidia-23"') == 1
    ledger.close()


def test_vgpus_of_a_vf_come_back(url: str) -> None:
    ledger = fleet(url)
    vgpu = VendorVgpu(creatable=(1145,), type_id=1147, instance=3, placement_id=None)
    seen = board("h1", 1, vfs=(replace(vfs(1)[0], mdev_types=(), vendor=vgpu),))
    see(ledger, "h1", seen)
    assert ledger.gpus()[0].facts == seen
    ledger.close()


# -- layouts ----------------------------------------------------------------------------------


def applied(ledger: SqlLedger, gpu: GpuRecord, **fields: object) -> Reservation:
    """A layout's operation of one task."""
    made = start(gpu_generations={gpu.id: gpu.generation})
    record = LayoutRecord(
        gpu=gpu.id, host=gpu.host, layout="desks", goal=GOAL, operation=made.operation.id
    )
    job = task(vm("none"), made.operation.id, verb="layout")
    return replace(made, tasks=(job,), layouts=(replace(record, **fields),))  # type: ignore[arg-type]


def test_a_layout_comes_back_and_a_later_one_replaces_it(url: str) -> None:
    ledger = fleet(url, ["h2", "h1"], gpus=2)
    gpus = ledger.gpus()
    for gpu in reversed(gpus):
        made = applied(ledger, gpu)
        ledger.reserve(made)
    assert [each.gpu for each in ledger.layouts()] == [gpu.id for gpu in gpus]
    assert ledger.layouts()[0] == made.layouts[0]
    again = applied(ledger, ledger.gpus()[0], goal=GpuLayout(mig=False), layout="none")
    ledger.reserve(again)
    assert ledger.layouts()[0] == again.layouts[0]
    assert len(ledger.layouts()) == len(gpus)
    ledger.remove_host("h1")
    assert {each.host for each in ledger.layouts()} == {"h2"}
    ledger.close()


def test_of_two_who_change_a_gpu_at_once_one_wins(url: str) -> None:
    ledger = fleet(url)
    [gpu], desk = ledger.gpus(), vm("desk")
    first = applied(ledger, gpu)
    ledger.reserve(first)
    refused(ledger, applied(ledger, gpu), StaleGeneration)
    placed = start(allocation(desk, gpu, [0]), vms=[desk], gpu_generations={gpu.id: gpu.generation})
    refused(ledger, placed, StaleGeneration)
    assert ledger.layouts() == first.layouts
    ledger.close()


def test_a_layout_without_its_gpus_generation_is_refused(url: str) -> None:
    ledger = fleet(url)
    made = replace(applied(ledger, ledger.gpus()[0]), gpu_generations={})
    error = refused(ledger, made, LedgerError)
    assert "without its generation" in str(error)
    assert ledger.layouts() == ()
    ledger.close()


def ended(made: Reservation, state: TaskState = TaskState.DONE) -> TaskMoved:
    return TaskMoved(task=made.tasks[0].id, state=state, layout_gpus=(made.layouts[0].gpu,))


@pytest.fixture
def ledger(url: str):
    opened = fleet(url, gpus=2)
    yield opened
    opened.close()


def test_the_end_of_its_task_settles_a_layout(ledger: SqlLedger) -> None:
    gpu, other = ledger.gpus()
    made, beside = applied(ledger, gpu), applied(ledger, other)
    ledger.reserve(made)
    ledger.reserve(beside)
    assert [each.settled for each in ledger.layouts()] == [False, False]
    ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
    assert [each.settled for each in ledger.layouts()] == [False, False]
    ledger.record(ended(made))
    assert [each.settled for each in ledger.layouts()] == [True, False]


def test_settled_or_not_is_one_commit_with_the_task(ledger: SqlLedger) -> None:
    made = applied(ledger, ledger.gpus()[0])
    ledger.reserve(made)
    with pytest.raises(LedgerError, match="cannot go from pending to done"):
        ledger.record(ended(made))
    assert [each.settled for each in ledger.layouts()] == [False]


def test_an_overtaken_task_settles_nothing(ledger: SqlLedger) -> None:
    made = applied(ledger, ledger.gpus()[0])
    ledger.reserve(made)
    later = applied(ledger, ledger.gpus()[0])
    ledger.reserve(later)
    ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
    ledger.record(ended(made))
    assert ledger.layouts() == later.layouts
    assert not later.layouts[0].settled

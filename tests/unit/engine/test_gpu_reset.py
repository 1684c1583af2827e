"""`gpu reset`: only what nothing uses, whole afterwards, and out of placement's way meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.health import HealthState
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, ResetGpu, SetVfs
from vgpumgr.sim.injection import inject

GPU = "0000:41:00.0"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """Two A100."""
    found = SimWorld(tmp_path, host("A100-PCIE-40GB", "A100-PCIE-40GB", versions=NEW))
    found.engine.refresh()
    yield found
    found.close()


def fault(world: SimWorld, *words: str) -> None:
    inject(world.sim.host("h1"), ["gpu", GPU, *words])
    world.engine.refresh()


def gpu_id(world: SimWorld) -> str:
    return world.ledger.gpus()[0].id


def reset(world: SimWorld) -> None:
    world.engine.reset_gpu(gpu_id(world)).raise_for_failure()


def test_what_waited_for_a_reset_is_over_and_the_gpu_takes_vms(world: SimWorld) -> None:
    fault(world, "remap-pending")
    fault(world, "xid", "140")
    assert not world.ledger.gpus()[0].health.state.takes_vms
    reset(world)
    [gpu, _] = world.ledger.gpus()
    assert (gpu.state, gpu.health.state, gpu.health.evidence) == (
        GpuState.HEALTHY,
        HealthState.HEALTHY,
        (),
    )
    assert world.supply().blocked == ""


def test_it_is_partitioned_as_it_was(world: SimWorld) -> None:
    instance = InstanceGoal(profile="3g.20gb")
    world.cut(GpuLayout(mig=True, vfs=VFS_MAX, instances=(instance,)))
    before = world.gpu()
    planned = world.engine.gpu_reset_plan(gpu_id(world)).changes
    assert [type(each) for each in planned[:2]] == [SetVfs, ResetGpu]
    reset(world)
    after = world.gpu()
    assert (after.mig, len(after.vfs)) == (before.mig, len(before.vfs))
    assert world.engine.layout_plan(None).gpus == ()


@pytest.mark.parametrize("running", [True, False])
def test_a_gpu_that_a_vm_holds_a_part_of_is_not_reset(world: SimWorld, running: bool) -> None:
    world.cut(GpuLayout(vfs=VFS_MAX))
    world.apply(vm("a", "A100-10C"))
    if not running:
        world.engine.stop_vms(["a"], force=True, timeout_s=1.0).raise_for_failure()
    with pytest.raises(InUse, match="is in use by a"):
        world.engine.reset_gpu(gpu_id(world))
    [gpu, _] = world.ledger.gpus()
    assert gpu.state is GpuState.HEALTHY
    assert not world.ledger.operations(open_only=True)


def test_a_gpu_that_a_program_holds_is_not_reset(world: SimWorld) -> None:
    fault(world, "client", "Xorg")
    with pytest.raises(InUse) as held:
        reset(world)
    assert "Xorg" in held.value.why
    [gpu, _] = world.ledger.gpus()
    assert (gpu.state, gpu.state_why.split(":")[0]) == (GpuState.QUARANTINED, "its reset failed")
    inject(world.sim.host("h1"), ["clear"])
    reset(world)
    assert world.ledger.gpus()[0].state is GpuState.HEALTHY


def test_a_driver_that_refuses_leaves_it_out_of_use_with_the_reason(world: SimWorld) -> None:
    fault(world, "fail", "reset", "1")
    with pytest.raises(HostRefused, match="was not reset"):
        reset(world)
    assert "In use by another client" in world.ledger.gpus()[0].state_why
    reset(world)
    assert world.ledger.gpus()[0].state is GpuState.HEALTHY


@pytest.mark.parametrize(
    ("words", "text"),
    [("recovery 2", "a reset does not help"), ("lost", "a reset does not help")],
)
def test_where_a_reset_does_not_help_none_is_tried(world: SimWorld, words: str, text: str) -> None:
    fault(world, *words.split())
    with pytest.raises(Conflict, match=text):
        reset(world)
    assert world.ledger.gpus()[0].state is GpuState.HEALTHY


def test_no_vm_is_to_be_moved_for_a_reset_that_would_not_help(world: SimWorld) -> None:
    world.cut(GpuLayout(vfs=VFS_MAX))
    world.apply(vm("a", "A100-10C"))
    fault(world, "lost")
    with pytest.raises(Conflict, match="a reset does not help") as refused:
        reset(world)
    assert "host drain h1" in refused.value.next


def test_a_board_that_is_no_better_for_it_is_told(world: SimWorld) -> None:
    """A bus reset is asked for behind our back, after the plan."""
    kernel = world.sim.host("h1").opened().kernel
    fault(world, "remap-pending")
    mended = kernel.nvidia[GPU].health.reset
    kernel.nvidia[GPU].health.rows.pending = True
    kernel.nvidia[GPU].reset = lambda: None  # type: ignore[method-assign]
    with pytest.raises(HostRefused, match="no better for it"):
        reset(world)
    assert mended is not None
    assert "its reset failed" in world.ledger.gpus()[0].state_why


def test_a_quarantine_of_an_operators_own_outlives_it(world: SimWorld) -> None:
    world.ledger.quarantine(gpu_id(world), "smells of smoke")
    reset(world)
    [gpu, _] = world.ledger.gpus()
    assert (gpu.state, gpu.state_why) == (GpuState.QUARANTINED, "smells of smoke")


def test_a_gpu_on_another_driver_is_not_reset(world: SimWorld) -> None:
    world.apply(vm("a", "passthrough"))
    held = world.ledger.allocations()[0].gpu
    with pytest.raises(InUse):
        world.engine.reset_gpu(held)
    with pytest.raises(NotFound):
        world.engine.reset_gpu("gpu-none")


def test_who_was_placed_before_the_reset_began_stops_it(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the plan and the quarantine a VM comes: it is seen by the look at the ledger."""
    world.cut(GpuLayout(vfs=VFS_MAX))
    quarantine = world.ledger.quarantine

    def late(gpu: str, why: str) -> None:
        monkeypatch.undo()
        world.apply(vm("a", "A100-10C"))
        quarantine(gpu, why)

    monkeypatch.setattr(world.ledger, "quarantine", late)
    with pytest.raises(InUse, match="is in use by a"):
        world.engine.reset_gpu(gpu_id(world))
    assert world.ledger.gpus()[0].state is GpuState.HEALTHY

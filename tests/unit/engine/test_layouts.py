"""Layouts over simulated hosts: what could not be read is never changed, nor taken for declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.layout import (
    VFS_MAX,
    GpuLayout,
    InstanceGoal,
    LayoutPlan,
    LayoutRule,
    LayoutSpec,
    Scheduler,
)

GPU = "0000:41:00.0"
CUT = GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile="3g.40gb"),))
WHOLE = GpuLayout(mig=False, vfs=0, mixed_size=False, scheduler=Scheduler.BEST_EFFORT)
QUARTER = "RTX Pro 6000 Blackwell DC-1-8Q"


def spec(goal: GpuLayout, *hosts: str) -> LayoutSpec:
    return LayoutSpec(name="cut", hosts=hosts or ("h1",), rules=(LayoutRule(layout=goal),))


@pytest.fixture
def a100(tmp_path: Path) -> Iterator[SimWorld]:
    world = SimWorld(tmp_path, host("A100-PCIE-80GB"))
    yield world
    world.close()


def plan(world: SimWorld, goal: GpuLayout) -> LayoutPlan:
    return world.engine.layout_plan([spec(goal)])


def instances(world: SimWorld) -> list[str]:
    mig = world.gpu().mig
    assert mig is not None
    return [each.profile for each in mig.instances or ()]


# -- what could not be read -------------------------------------------------------------------


@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", "nvmlDeviceGetVgpuHeterogeneousMode"])
@pytest.mark.parametrize(
    "goal",
    [GpuLayout(vfs=0), GpuLayout(instances=()), GpuLayout(mixed_size=False), CUT],
    ids=["vfs", "instances", "mixed", "cut"],
)
def test_a_gpu_whose_modes_did_not_answer_is_neither_changed_nor_as_declared(
    a100: SimWorld, function: str, goal: GpuLayout
) -> None:
    a100.cut(CUT)
    a100.sim.inject("h1", ("gpu", GPU, "fail", function, "99"))
    [change] = plan(a100, goal).gpus
    assert (change.changes, "could not be read" in change.refused) == ((), True)
    with pytest.raises(Conflict, match="cannot be changed"):
        a100.engine.layout_apply([spec(goal)])
    assert "could not be read" in a100.supply().blocked
    a100.sim.inject("h1", ("clear",))
    assert (instances(a100), a100.supply().blocked) == (["3g.40gb"], "")


def test_a_host_that_does_not_answer_is_not_taken_for_settled(tmp_path: Path) -> None:
    world = SimWorld(tmp_path, host("A100-PCIE-80GB"), host("L40S", name="h2"))
    world.sim.inject("h1", ("gpu", GPU, "client", "dcgm"))
    goal = GpuLayout(vfs=VFS_MAX)
    both = spec(goal, "h1", "h2")
    outcome = world.engine.layout_apply([both])[1]
    assert len(outcome.done) == 1
    world.sim.inject("h1", ("unreachable",))
    done, _ = world.engine.layout_apply([both])
    assert [line.split(":")[0] for line in done.warnings] == ["h1"]
    assert {each.host: each.settled for each in world.ledger.layouts()} == {"h1": False, "h2": True}
    world.close()


def test_a_gpu_that_is_gone_has_no_goal_and_its_layout_is_not_forgotten(
    tmp_path: Path,
) -> None:
    """Another board in its slot must not be changed by what was known of the first."""
    world = SimWorld(tmp_path, host("A100-PCIE-80GB", "L40S"))
    world.cut(GpuLayout(vfs=VFS_MAX))
    facts = world.facts()
    gone = replace(facts, gpus=facts.gpus[1:])
    world.ledger.observe(gone, {each.device: 1 for each in gone.gpus}, 0.0)
    assert world.ledger.gpus()[0].state is GpuState.MISSING
    from vgpumgr.engine.layouts import layout_plan

    view = world.engine.view()
    assert [each.device for each in layout_plan.plan(view, [spec(WHOLE)]).gpus] == [
        facts.gpus[1].device
    ]
    [line] = layout_plan.plan(view, None).warnings
    assert line == f"h1: A100-PCIE-80GB {GPU} is missing"
    world.close()


class Rebooting:
    """A ledger at whose n-th write the host reboots."""

    def __init__(self, world: SimWorld, at: int) -> None:
        self._world, self._left = world, at

    def __getattr__(self, name: str) -> object:
        return getattr(self._world.ledger, name)

    def record(self, *transitions: object) -> None:
        self._left -= 1
        if not self._left:
            self._world.sim.inject("h1", ("reboot",))
        self._world.ledger.record(*transitions)


def test_a_reboot_between_two_changes_is_not_called_done(a100: SimWorld) -> None:
    """VFs on, reboot, GPU instance made: each step was seen, and the VFs are off again."""
    engine = replace(a100.engine, ledger=Rebooting(a100, 4))  # type: ignore[arg-type]
    _, outcome = engine.layout_apply([spec(CUT)])
    with pytest.raises(Conflict, match="still differs from its declaration") as failed:
        outcome.raise_for_failure()
    assert "VFs: 0 on, wanted 20" in failed.value.why
    a100.cut(CUT)
    assert plan(a100, CUT) == LayoutPlan(unchanged=1)


# -- what belongs to VMs ----------------------------------------------------------------------


def test_a_gpu_given_whole_is_as_declared(a100: SimWorld) -> None:
    a100.cut(WHOLE)
    a100.apply(vm("whole", "passthrough"))
    assert plan(a100, WHOLE) == LayoutPlan(unchanged=1)
    [change] = plan(a100, CUT).gpus
    assert change.holders == ("whole",)


def test_an_instance_that_vms_hand_on_is_no_drift(tmp_path: Path) -> None:
    """The VM it was made for goes first: who shares it inherits it, and then it goes too."""
    world = SimWorld(tmp_path, host("RTX-PRO-6000-BSE"))
    goal = GpuLayout(mig=True, vfs=VFS_MAX, instances=())
    world.cut(goal)
    world.apply(vm("first", QUARTER), vm("second", QUARTER))
    assert len(instances(world)) == 1
    world.delete("first")
    assert plan(world, goal) == LayoutPlan(unchanged=1)
    world.delete("second")
    assert instances(world) == []
    world.close()


def test_a_layouts_instance_stays_whatever_shares_it_wanted(tmp_path: Path) -> None:
    world = SimWorld(tmp_path, host("RTX-PRO-6000-BSE"))
    profile = "1g.24gb+gfx"
    world.cut(GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile=profile),)))
    helper = world.hosts.open(world.ledger.host("h1")).helper
    gpu = world.gpu()
    assert gpu.mig is not None
    [there] = gpu.mig.instances or ()
    world.apply(vm("a", QUARTER))
    asked = world.ledger.allocations()[0].type_id
    part = {"gpu": GPU, "profile_id": there.profile_id, "start": there.start, "size": there.size}
    claim = {"allocation": "late", "generation": 1, "vm": "late"}
    free = next(vf.address for vf in gpu.vfs[2:])
    made = helper.call(
        "vgpu_create",
        {"vf": free, "type": int(asked), "instance": {**part, "make": True}, "claim": claim},
    )
    assert made["claim"]["wanted"]["instance"]["make"] is False  # type: ignore[index]
    world.delete("a")
    helper.call("vgpu_release", {"vf": free, "claim": claim})
    assert instances(world) == [profile]
    world.close()


def test_the_schedulers_timing_is_set_read_back_and_comes_back_after_a_boot(
    tmp_path: Path,
) -> None:
    """By the product's own helper, on a simulated driver."""
    world = SimWorld(tmp_path, host("A40"))
    timed = {"vfs": VFS_MAX, "scheduler": Scheduler.EQUAL_SHARE}
    goal = GpuLayout(**timed, scheduler_timing=(480, 51))  # type: ignore[arg-type]
    world.engine.layout_apply([spec(goal)])
    facts = world.gpu()
    assert (facts.scheduler, facts.scheduler_timing) == ("equal-share", (480, 51))
    assert [each for each in plan(world, goal).gpus if each.changes] == []
    slices = GpuLayout(**timed, scheduler_timing=(2500,))  # type: ignore[arg-type]
    world.engine.layout_apply([spec(slices)])
    assert world.gpu().scheduler_timing == (2500,)
    world.engine.layout_apply([spec(GpuLayout(**timed, scheduler_timing=()))])  # type: ignore[arg-type]
    assert world.gpu().scheduler_timing == ()
    world.close()

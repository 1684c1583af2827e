"""What a host keeps of a layout: the goal made plain, the same whenever it is asked."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from tests.unit.layout.values import Driver
from vgpumgr import layout
from vgpumgr.helper import wanted_state
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuInstance
from vgpumgr.model.layout import (
    VFS_MAX,
    GpuLayout,
    InstanceGoal,
    KeptInstance,
    KeptLayout,
    Scheduler,
)

A100, L40S = "A100-PCIE-80GB", "L40S"
FILLED = InstanceGoal(profile="3g.40gb", compute=("2c.3g.40gb", "1c.3g.40gb"))


def planned(gpu: GpuFacts, goal: GpuLayout) -> GpuFacts:
    """The GPU as its changes leave it."""
    return reduce(layout.apply_change, layout.plan(gpu, goal, (), ())[1], gpu)


def kept(gpu: GpuFacts, goal: GpuLayout) -> KeptLayout:
    return layout.to_keep(planned(gpu, goal), goal, ())


GOALS = [
    (A100, GpuLayout(vfs=VFS_MAX)),
    (A100, GpuLayout(mig=True, vfs=VFS_MAX)),
    (A100, GpuLayout(mig=True, instances=())),
    (A100, GpuLayout(mig=True, vfs=VFS_MAX, instances=(FILLED, InstanceGoal(profile="2g.20gb")))),
    (A100, GpuLayout(mig=True, instances=(InstanceGoal(profile="1g.10gb", start=6),))),
    (L40S, GpuLayout(vfs=VFS_MAX, mixed_size=True, scheduler=Scheduler.EQUAL_SHARE)),
    ("T4", GpuLayout(mig=False)),
]


@pytest.mark.parametrize(("board", "goal"), GOALS)
def test_it_is_known_before_the_first_change_and_the_same_afterwards(
    board: str, goal: GpuLayout
) -> None:
    driver = Driver(board)
    before = driver.facts()
    first = kept(before, goal)
    after = planned(before, goal)
    assert layout.differences(after, goal, ()) == ()
    assert layout.to_keep(after, goal, ()) == first


@pytest.mark.parametrize(("board", "goal"), GOALS)
def test_the_helper_takes_it(board: str, goal: GpuLayout) -> None:
    parts = layout.kept_parts(kept(Driver(board).facts(), goal))
    wanted_state.check({"kind": "layout", "gpu": "0000:41:00.0", **parts})


def test_only_what_is_declared_is_kept() -> None:
    assert layout.kept_parts(KeptLayout()) == {}
    assert layout.kept_parts(KeptLayout(mig=False, vfs=0, instances=())) == {
        "mig": False,
        "vfs": 0,
        "instances": [],
    }


def test_counts_and_places_are_plain() -> None:
    found = kept(Driver(A100).facts(), GOALS[3][1])
    assert found.vfs == 32
    assert found.instances is not None
    by_profile = {each.profile_id: each for each in found.instances}
    assert (by_profile[9].size, by_profile[14].size) == (4, 2)
    assert len(by_profile[9].compute) == 2
    assert by_profile[14].compute == ()
    starts = [each.start for each in found.instances]
    assert starts == sorted(starts)


def test_what_was_made_for_a_vm_is_not_kept() -> None:
    gpu = planned(Driver(A100).facts(), GpuLayout(mig=True, vfs=VFS_MAX))
    assert gpu.mig is not None
    instances = (
        GpuInstance(id=1, profile="3g.40gb", profile_id=9, start=0, size=4),
        GpuInstance(id=2, profile="3g.40gb", profile_id=9, start=4, size=4),
    )
    gpu = replace(gpu, mig=replace(gpu.mig, instances=instances))
    goal = GpuLayout(instances=(InstanceGoal(profile="3g.40gb"),))
    found = layout.to_keep(gpu, goal, {0})
    assert found.instances == (KeptInstance(profile_id=9, start=4, size=4),)


def test_compute_instances_that_nobody_declared_are_not_kept() -> None:
    """A guest's are its own, and gone with it."""
    gpu = planned(Driver(A100).facts(), GOALS[4][1])
    assert gpu.mig is not None
    [there] = gpu.mig.instances or ()
    filled = replace(there, compute=(ComputeInstance(id=0, profile_id=0),))
    gpu = replace(gpu, mig=replace(gpu.mig, instances=(filled,)))
    assert layout.to_keep(gpu, GOALS[4][1], ()) == kept(Driver(A100).facts(), GOALS[4][1])

"""A cut change's own steps tell what it was to leave as it found it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.layout.values import Driver
from vgpumgr import layout
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, PartChange, Scheduler

EQUAL = Scheduler.EQUAL_SHARE
L40S = Driver("L40S", vfs=32, mixed=True, policy=EQUAL)
A100 = Driver("A100-PCIE-80GB", vfs=32, enabled=True, instances={4: ("3g.40gb", (0,))})


@pytest.mark.parametrize(
    ("start", "goal"),
    [
        (L40S, GpuLayout(vfs=0)),
        (replace(L40S, vfs=0, mixed=False), GpuLayout(vfs=VFS_MAX)),
        (A100, GpuLayout(vfs=0)),
        (replace(A100, enabled=False, instances={}, policy=EQUAL), GpuLayout(mig=True)),
    ],
    ids=["down", "up", "instances", "VFs"],
)
def test_whatever_was_done_the_rest_ends_as_the_whole_would(start: Driver, goal: GpuLayout) -> None:
    changes = layout.plan(start.facts(), goal, (), ())[1]
    wanted = done(start, changes)
    assert len(changes) > 1
    for number in range(len(changes)):
        cut = done(start, changes[:number])
        whole = layout.resumed_goal(cut.facts(), goal, goal, changes)
        rest = layout.plan(cut.facts(), whole, (), ())[1]
        assert done(cut, rest) == wanted, f"after {number} changes"


def done(start: Driver, changes: tuple[PartChange, ...]) -> Driver:
    driver = replace(start, instances=dict(start.instances))
    for change in changes:
        driver.run(change)
    return driver


def test_what_the_cut_goal_declared_is_not_carried() -> None:
    before = GpuLayout(vfs=VFS_MAX, mixed_size=True, scheduler=EQUAL)
    start = Driver("L40S")
    changes = layout.plan(start.facts(), before, (), ())[1]
    goal = GpuLayout(vfs=VFS_MAX)
    assert layout.resumed_goal(start.facts(), goal, before, changes) == goal


def test_what_the_new_goal_declares_counts() -> None:
    changes = layout.plan(L40S.facts(), GpuLayout(vfs=0), (), ())[1]
    goal = GpuLayout(vfs=VFS_MAX, mixed_size=False, scheduler=Scheduler.FIXED_SHARE)
    assert layout.resumed_goal(L40S.facts(), goal, GpuLayout(vfs=0), changes) == goal


def test_nothing_is_carried_into_a_mode_that_cannot_have_it() -> None:
    changes = layout.plan(L40S.facts(), GpuLayout(vfs=0), (), ())[1]
    goal = GpuLayout(mig=True)
    assert layout.resumed_goal(L40S.facts(), goal, GpuLayout(vfs=0), changes) == goal
    changes = layout.plan(A100.facts(), GpuLayout(vfs=0), (), ())[1]
    goal = GpuLayout(mig=False)
    assert layout.resumed_goal(A100.facts(), goal, GpuLayout(vfs=0), changes) == goal


def test_an_instance_is_carried_with_its_place_and_its_compute_instances() -> None:
    facts = A100.facts()
    name = layout.export(facts).instances[0].compute  # type: ignore[index]
    changes = layout.plan(facts, GpuLayout(vfs=0), (), ())[1]
    found = layout.resumed_goal(facts, GpuLayout(), GpuLayout(vfs=0), changes)
    assert found.instances == (InstanceGoal(profile="3g.40gb", start=4, compute=name),)

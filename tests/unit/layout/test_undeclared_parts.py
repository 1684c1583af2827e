"""What a layout leaves alone: as the one before it declared it, and as lost vGPUs need it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.layout.values import Driver
from vgpumgr import layout
from vgpumgr.model.gpu import Framework
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, Scheduler
from vgpumgr.model.supply import Usage

L40S = Driver("L40S", vfs=32, mixed=True, policy=Scheduler.EQUAL_SHARE).facts()
A100 = Driver(
    "A100-PCIE-80GB", vfs=32, enabled=True, pending=True, instances={4: ("3g.40gb", (0,))}
).facts()
ONE = (InstanceGoal(profile="3g.40gb"),)
MIXED = GpuLayout(vfs=VFS_MAX, mixed_size=True)


def standing(facts: object, goal: GpuLayout, before: GpuLayout) -> GpuLayout:
    return layout.still_declared(facts, goal, before, ())  # type: ignore[arg-type]


def test_it_stays_declared_while_the_gpu_shows_it() -> None:
    assert standing(L40S, GpuLayout(vfs=VFS_MAX), MIXED) == MIXED
    equal = GpuLayout(scheduler=Scheduler.EQUAL_SHARE)
    assert standing(L40S, GpuLayout(mixed_size=True), equal) == replace(equal, mixed_size=True)
    cut = GpuLayout(mig=True, instances=ONE)
    assert standing(A100, GpuLayout(vfs=VFS_MAX), cut) == replace(cut, vfs=VFS_MAX)


@pytest.mark.parametrize(
    ("goal", "before"),
    [
        (GpuLayout(vfs=VFS_MAX), GpuLayout(mixed_size=False)),
        (GpuLayout(mixed_size=False), GpuLayout(mixed_size=True)),
        (GpuLayout(vfs=0), GpuLayout(mixed_size=True)),
        (GpuLayout(mig=True), GpuLayout(mixed_size=True)),
    ],
    ids=["otherwise by hand", "declared anew", "without VFs", "with MIG"],
)
def test_it_is_declared_no_more(goal: GpuLayout, before: GpuLayout) -> None:
    assert standing(L40S, goal, before) == goal


def test_instances_go_with_mig() -> None:
    before = GpuLayout(mig=True, instances=ONE)
    assert standing(A100, GpuLayout(mig=False), before) == GpuLayout(mig=False)
    other = GpuLayout(mig=True, instances=(InstanceGoal(profile="7g.80gb"),))
    assert standing(A100, GpuLayout(vfs=0), other) == GpuLayout(vfs=0, mig=True)


def test_lost_vgpus_of_mixed_sizes_bring_the_mode_back() -> None:
    there = Usage(profile="L40S-8Q", framework=Framework.VFIO_VF, units=8, vm="a")
    lost = replace(there, needs=GpuLayout(vfs=VFS_MAX, mixed_size=True))
    plain, off = GpuLayout(vfs=VFS_MAX), GpuLayout(mixed_size=False)
    assert layout.with_lost_mixed_size(plain, [lost]) == MIXED
    assert layout.with_lost_mixed_size(off, [lost]) == off
    assert layout.with_lost_mixed_size(plain, [there]) == plain

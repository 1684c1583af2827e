"""Power limits by layouts over simulated hosts: set under guests, refused, lost and restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import PowerFacts
from vgpumgr.model.layout import POWER_DEFAULT, VFS_MAX, GpuLayout, LayoutRule, LayoutSpec

CAPPED = GpuLayout(vfs=VFS_MAX, power_limit=200, locked_clocks=(210, 1200))


@pytest.fixture
def a40(tmp_path: Path) -> Iterator[SimWorld]:
    world = SimWorld(tmp_path, host("A40"))
    yield world
    world.close()


def power(world: SimWorld) -> PowerFacts:
    found = world.gpu().power
    assert found is not None
    return found


def differences(world: SimWorld) -> tuple[str, ...]:
    return tuple(line for gpu in world.engine.layout_plan(None).gpus for line in gpu.differences)


def test_a_layout_sets_both_under_a_guest_and_default_ends_them(a40: SimWorld) -> None:
    a40.cut(GpuLayout(vfs=VFS_MAX))
    a40.apply(vm("desk", "A40-8Q"))
    a40.cut(CAPPED)
    assert (power(a40).limit_w, power(a40).locked_clocks) == (200, (210, 1200))
    a40.cut(GpuLayout(power_limit=POWER_DEFAULT, locked_clocks=()))
    assert (power(a40).limit_w, power(a40).locked_clocks) == (300, ())


@pytest.mark.parametrize("watts", [99, 301])
def test_a_limit_outside_the_bounds_is_refused_and_never_clamped(a40: SimWorld, watts: int) -> None:
    rule = LayoutRule(layout=GpuLayout(power_limit=watts))
    with pytest.raises(Conflict) as refused:
        a40.engine.layout_apply([LayoutSpec(name="cap", hosts=("h1",), rules=(rule,))])
    assert "100 to 300 W" in refused.value.why
    assert power(a40).limit_w == 300


def test_vfs_that_come_on_later_do_not_lose_the_limit(a40: SimWorld) -> None:
    a40.cut(GpuLayout(power_limit=200, locked_clocks=(210, 1200)))
    a40.cut(GpuLayout(vfs=VFS_MAX))
    assert (power(a40).limit_w, power(a40).locked_clocks) == (200, (210, 1200))


def test_a_reboot_forgets_both_and_the_restore_brings_them_back(a40: SimWorld) -> None:
    a40.cut(CAPPED)
    a40.sim.inject("h1", ("reboot",))
    a40.engine.refresh(["h1"])
    assert power(a40).limit_w == 300
    assert "power limit: 300 W enforced, wanted 200 W" in differences(a40)
    a40.engine.hosts.open(a40.ledger.hosts()[0]).helper.call("restore", {})
    a40.engine.refresh(["h1"])
    assert (power(a40).limit_w, power(a40).locked_clocks, differences(a40)) == (
        200,
        (210, 1200),
        (),
    )


def test_a_guest_that_had_the_gpu_whole_leaves_it_as_its_layout_declares(a40: SimWorld) -> None:
    a40.cut(GpuLayout(power_limit=200, locked_clocks=(210, 1200)))
    a40.apply(vm("whole", "passthrough"))
    a40.delete("whole")
    a40.engine.refresh(["h1"])
    assert (power(a40).limit_w, power(a40).locked_clocks) == (200, (210, 1200))
    assert differences(a40) == ()

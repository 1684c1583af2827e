"""Power budgets as a constraint of placement: steered, refused by name, and freed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.inventory.planned_power import PlannedPower
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.power import PowerBudget, PowerCap

WHOLE = "A40-48Q"

pytestmark = pytest.mark.thorough


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("A40", "A40"), host("A40", "A40", name="h2"))
    for each in ("h1", "h2"):
        made.cut(GpuLayout(vfs=VFS_MAX), each)
    yield made
    made.close()


def budget(world: SimWorld, watts: int, *hosts: str, name: str = "pdu-1") -> None:
    world.ledger.set_power_budgets(
        [PowerBudget(name=name, watts=watts, hosts=hosts, host_watts=100)]
    )


def test_vms_go_where_a_budget_has_room(world: SimWorld) -> None:
    budget(world, 350, "h1")
    world.apply(vm("a", WHOLE), vm("b", WHOLE))
    assert {each.host for each in world.ledger.vms()} == {"h2"}


def test_a_refusal_names_the_budget_and_what_is_left(world: SimWorld) -> None:
    budget(world, 500, "h1", "h2")
    world.apply(vm("a", WHOLE))
    assert PlannedPower(world.engine.view()).planned("pdu-1") == 500
    with pytest.raises(VgpumgrError) as refused:
        world.engine.apply([vm("b", WHOLE)])
    assert "power budget pdu-1 has 0 of its 500 W left, and 300 W more" in str(refused.value.why)


def test_several_at_once_are_counted_together(world: SimWorld) -> None:
    budget(world, 800, "h1", "h2")
    planned = world.engine.plan([vm(name, WHOLE) for name in "abc"])
    assert [each.request.name for each in planned.unplaced] == ["c"]
    assert planned.unplaced[0].reasons[0].code == "power"


def test_a_gpu_that_is_in_use_already_takes_more_vms(world: SimWorld) -> None:
    budget(world, 500, "h1", "h2")
    world.apply(vm("a", "A40-8Q"))
    world.apply(vm("b", "A40-8Q"))
    world.delete("a", "b")
    assert PlannedPower(world.engine.view()).planned("pdu-1") == 200


def test_a_lower_limit_makes_room_and_a_cap_of_the_controller_does_not(world: SimWorld) -> None:
    world.cut(GpuLayout(power_limit=150))
    budget(world, 400, "h1")
    world.apply(vm("a", WHOLE))
    view = world.engine.view()
    assert PlannedPower(view).planned("pdu-1") == 250
    gpu = next(each.gpu for each in view.allocations)
    world.ledger.set_power_cap(PowerCap(gpu=gpu, host="h1", limit_w=100, why="pdu-1"))
    assert PlannedPower(world.engine.view()).planned("pdu-1") == 250

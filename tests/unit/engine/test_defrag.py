"""Defragmentation on simulated hosts: who may move, what is around them, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tests.contract.simulated.host import SimMachine
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.defrag.defrag_plan import DefragPlan, DefragRequest
from vgpumgr.engine.defrag.movable_vms import residents
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.model.defrag import (
    DefragGoal,
    DefragMoves,
    EmptyGpus,
    FreeRoom,
    MoveMode,
    NoDefragMoves,
)
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import Affinity, PlacementPolicy
from vgpumgr.placement.defrag.fleet_without import without

BREADTH = PlacementPolicy.BREADTH_FIRST
CREATE = "/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2/create"
CUT = GpuLayout(vfs=VFS_MAX)
MIG = GpuLayout(mig=True, vfs=VFS_MAX)
MIXED = GpuLayout(vfs=VFS_MAX, mixed_size=True)


class Bench:
    """Two hosts alike that take running VMs."""

    def __init__(self, folder: Path, *boards: str) -> None:
        self.world = SimWorld(folder, *(host(*boards, name=name) for name in ("h1", "h2")))
        for name in ("h1", "h2"):
            record = self.world.ledger.host(name)
            self.world.ledger.update_host(replace(record, migration=MigrationAddress(address=name)))
        self.world.engine.refresh()

    def plan(self, goal: DefragGoal | None, **wanted: object) -> DefragPlan:
        return self.world.engine.defrag_plan(DefragRequest(goal=goal, **wanted))[0]  # type: ignore[arg-type]

    def where(self) -> dict[str, str]:
        return {each.name: each.host for each in self.world.ledger.vms()}

    def fleet(self) -> Fleet:
        return build_fleet(self.world.engine.view())


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Bench]]:
    """For the benches that a test makes."""
    found: list[Bench] = []
    yield found
    for each in found:
        each.world.close()


def bench(made: list[Bench], folder: Path, *boards: str) -> Bench:
    made.append(Bench(folder, *boards))
    return made[-1]


@pytest.mark.parametrize(
    ("board", "layout", "profiles"),
    [
        ("T4", None, ("T4-4Q", "T4-2Q")),
        ("A40", CUT, ("A40-8Q", "A40-4Q")),
        ("L40S", MIXED, ("L40S-16Q", "L40S-8Q", "L40S-4Q")),
        ("A100-SXM4-80GB", MIG, ("3g.40gb", "1g.10gb", "2g.20gb")),
        ("mtty", None, ("mtty-2", "mtty-1")),
    ],
)
def test_the_fleet_without_its_vms_is_the_fleet_before_them(
    made: list[Bench],
    tmp_path: Path,
    board: str,
    layout: GpuLayout | None,
    profiles: tuple[str, ...],
) -> None:
    found = bench(made, tmp_path, board)
    if layout is not None:
        found.world.cut(layout)
        found.world.cut(layout, "h2")
    found.world.engine.refresh()
    before = found.fleet()
    found.world.apply(*(vm(f"vm-{n}", profile) for n, profile in enumerate(profiles)))
    found.world.engine.refresh()
    view = found.world.engine.view()
    held = residents(view, found.fleet())
    assert len(held) == len(profiles)
    bare = without(found.fleet(), (each.placed for each in held))
    assert [_plain(each) for each in bare.hosts] == [_plain(each) for each in before.hosts]


def _plain(supply: HostSupply) -> HostSupply:
    """But for what the driver counted, and for huge pages that are no VM's."""
    return replace(supply, gpus=tuple(replace(gpu, available={}) for gpu in supply.gpus))


def test_devices_of_others_stay_and_room_is_made_around_them(
    made: list[Bench], tmp_path: Path
) -> None:
    """Both hosts have one port free of the two that are wanted."""
    found = bench(made, tmp_path, "mtty")
    for name in ("h1", "h2"):
        root = SimMachine(found.world.sim.hosts[name])
        for number in range(11):
            root.write(CREATE, str(UUID(int=number + 1)))
    found.world.apply(*(vm(name, "mtty-1", policy=BREADTH) for name in ("a", "b")))
    assert sorted(found.where().values()) == ["h1", "h2"]
    stuck = found.plan(EmptyGpus(gpus=1)).found
    assert isinstance(stuck, NoDefragMoves)
    assert "is on it" in stuck.obstacles[0].text
    plan = found.plan(FreeRoom(request=vm("big", "mtty-2")))
    assert isinstance(plan.found, DefragMoves)
    [move] = plan.found.moves
    assert move.way.how is MoveMode.LIVE
    found.world.engine.defrag(plan).outcome.raise_for_failure()
    assert len(set(found.where().values())) == 1
    found.world.apply(vm("big", "mtty-2"))
    assert len(set(found.where().values())) == 2


def test_a_seat_that_somebody_took_meanwhile_ends_it_and_nothing_moves(
    made: list[Bench], tmp_path: Path
) -> None:
    found = bench(made, tmp_path, "T4")
    found.world.apply(*(vm(name, "T4-8Q", policy=BREADTH) for name in ("a", "b")))
    plan = found.plan(EmptyGpus(gpus=1))
    assert isinstance(plan.found, DefragMoves)
    [move] = plan.found.moves
    other = vm("c", "T4-8Q", affinity=Affinity(hosts=(move.target.host,)))
    found.world.apply(other)
    before = found.where()
    done = found.world.engine.defrag(plan)
    assert done.done == ()
    assert "is not free any more" in str(done.error and done.error.why)
    assert found.where() == before


def test_without_a_goal_the_gauge_is_lowered(made: list[Bench], tmp_path: Path) -> None:
    """Sizes do not mix on a T4: a small vGPU keeps a whole GPU from all that are larger."""
    found = bench(made, tmp_path, "T4", "T4")
    found.world.apply(*(vm(f"vm-{n}", "T4-1Q") for n in range(4)))
    plan = found.plan(None, share=0.0)
    assert isinstance(plan.found, DefragMoves)
    assert plan.after <= plan.before
    enough = found.plan(None, share=1.0).found
    assert enough == DefragMoves()

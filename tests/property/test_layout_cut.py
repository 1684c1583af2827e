"""A layout that is cut half-way leaves no part behind that it was to leave as it was.

The driver forgets VFs, GPU instances, mixed sizes and the scheduler's policy when it lets go of a
GPU. A change brings back those that its layout does not declare: also after its process died, or
the host refused, and the layout, or another one, is applied later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import VFS_MAX, GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.operation import Transition

GPU = "0000:41:00.0"


@dataclass(frozen=True)
class Case:
    """What somebody set by hand (helper verbs) on a board, and a goal that does not declare it."""

    board: str
    by_hand: tuple[tuple[str, dict[str, object]], ...]
    goal: GpuLayout


MIG_ON = ("mig_mode_set", {"enabled": True})
VFS_ON = ("vfs_set", {"count": 20})
INSTANCE = ("gi_create", {"profile_id": 9, "start": 4, "size": 4, "compute": []})
SHARED = ("scheduler_set", {"policy": "equal-share"})
CASES = {
    "policy": Case("L40S", (SHARED,), GpuLayout(vfs=VFS_MAX)),
    "instances": Case("A100-PCIE-80GB", (MIG_ON, VFS_ON, INSTANCE), GpuLayout(vfs=0)),
}


def spec(goal: GpuLayout) -> LayoutSpec:
    return LayoutSpec(name="cut", hosts=("h1",), rules=(LayoutRule(layout=goal),))


class Bench:
    """A GPU as somebody set it up by hand."""

    def __init__(self, folder: Path, case: Case) -> None:
        folder.mkdir()
        self.world = SimWorld(folder, host(case.board))
        self.world.engine.refresh()
        helper = self.world.hosts.open(self.world.ledger.host("h1")).helper
        for verb, args in case.by_hand:
            helper.call(verb, {"gpu": GPU, **args})

    def apply(self, goal: GpuLayout) -> GpuFacts:
        """The GPU when the layout is applied."""
        self.world.engine.layout_apply([spec(goal)])[1].raise_for_failure()
        assert not self.world.ledger.operations(open_only=True)
        assert not self.world.supply().blocked
        assert not self.world.engine.layout_plan(None).gpus
        return self.world.gpu()

    def dies(self, goal: GpuLayout, at: int) -> bool:
        """The process is killed at the n-th durable write; False when it had fewer."""
        mortal = Mortal(self.world.ledger, at, after=True)
        try:
            replace(self.world.engine, ledger=mortal).layout_apply([spec(goal)])  # type: ignore[arg-type]
        except Killed:
            self.world.restart()
            return True
        return False

    def is_unplugged(self, goal: GpuLayout, at: int) -> bool:
        """The host does not answer any more from the n-th write on."""
        ledger = Unplugging(self.world, at)
        engine = replace(self.world.engine, ledger=ledger)  # type: ignore[arg-type]
        engine.layout_apply([spec(goal)])
        self.world.sim.inject("h1", ("clear",))
        self.world.engine.refresh()
        return ledger.left <= 0


class Unplugging:
    """A ledger at whose n-th write its host's cable is pulled."""

    def __init__(self, world: SimWorld, at: int) -> None:
        self._world, self.left = world, at

    def __getattr__(self, name: str) -> object:
        return getattr(self._world.ledger, name)

    def record(self, *transitions: Transition) -> None:
        self.left -= 1
        if not self.left:
            self._world.sim.inject("h1", ("unreachable",))
        self._world.ledger.record(*transitions)


Cut = Callable[[Bench, GpuLayout, int], bool]


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("policy", Bench.dies),
        ("instances", Bench.is_unplugged),
    ],
)
def test_what_a_layout_leaves_alone_is_there_after_it_was_cut(
    name: str, cut: Cut, tmp_path: Path
) -> None:
    case = CASES[name]
    undisturbed = Bench(tmp_path / "undisturbed", case)
    wanted = left_alone(undisturbed.apply(case.goal))
    undisturbed.world.close()
    for at in count(1):
        bench = Bench(tmp_path / str(at), case)
        was_cut = cut(bench, case.goal, at)
        assert left_alone(bench.apply(case.goal)) == wanted, f"cut at write {at}"
        bench.world.close()
        if not was_cut:
            break
    assert at > 3


def left_alone(gpu: GpuFacts) -> object:
    made = gpu.mig and [(each.profile, each.start) for each in gpu.mig.instances or ()]
    return gpu.scheduler, gpu.mixed_size, len(gpu.vfs), made, gpu.mig and gpu.mig.enabled


def test_another_layout_leaves_alone_what_the_cut_one_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cut", CASES["policy"])
    assert bench.dies(GpuLayout(vfs=VFS_MAX), at=4)
    assert bench.world.gpu().scheduler == "best-effort"
    assert bench.apply(GpuLayout(vfs=VFS_MAX, mixed_size=True)).scheduler == "equal-share"
    bench.world.close()


def test_what_the_cut_layout_declared_is_wanted_no_more(tmp_path: Path) -> None:
    """It never came to be, so that the next layout does not find it there."""
    bench = Bench(tmp_path / "cut", CASES["policy"])
    assert bench.dies(GpuLayout(vfs=VFS_MAX, mixed_size=True), at=4)
    assert bench.apply(GpuLayout(vfs=VFS_MAX)).mixed_size is False
    bench.world.close()

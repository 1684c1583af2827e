"""The engine's process dies at any durable write, over the real helper and simulated drivers.

Every way of giving a VM a GPU, and layouts: afterwards the same command, ``resume`` or ``undo``
leaves the host as if nothing had happened: no device, claim, GPU instance, type or partition too
many, none too few, and nothing that two VMs hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import OLD, SimWorld, host, vm
from vgpumgr import layout
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec, Scheduler
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm import GpuRequest, VmSpec

Command = Callable[[Engine], object]


@dataclass(frozen=True)
class Way:
    """A host, how it is partitioned, and VMs that all use one framework of it."""

    host: SimHost
    vms: tuple[VmSpec, ...]
    layout: GpuLayout | None = None


MIG = GpuLayout(mig=True, vfs=VFS_MAX, instances=())
HGX = host(*("H100-SXM5-80GB",) * 8, fabric="HGX-H100-8")
PAIR = GpuRequest(profile="passthrough", count=2)
WAYS = {
    "mdev on the GPU": Way(host("T4"), (vm("a", "T4-8Q"),)),
    "mdev on a VF": Way(host("A40", versions=OLD), (vm("a", "A40-24Q"),), GpuLayout(vfs=VFS_MAX)),
    "vfio VF": Way(host("L40S"), (vm("a", "L40S-24Q"),), GpuLayout(vfs=VFS_MAX)),
    "instance": Way(host("A100-PCIE-80GB"), (vm("a", "3g.40gb"),), MIG),
    "instance under an mdev": Way(host("A100-PCIE-80GB", versions=OLD), (vm("a", "3g.40gb"),), MIG),
    "instance outside the catalogue": Way(host("UNLISTED-MIG"), (vm("a", "3g.40gb"),), MIG),
    "instance for two": Way(
        host("RTX-PRO-6000-BSE"),
        tuple(vm(name, "RTX Pro 6000 Blackwell DC-1-8Q") for name in "ab"),
        MIG,
    ),
    "mixed sizes": Way(
        host("L40S"), (vm("a", "L40S-24Q", "L40S-8Q"),), GpuLayout(vfs=VFS_MAX, mixed_size=True)
    ),
    "plain VF": Way(host("FLEX-170"), (vm("a", "FLEX-170-1of5"),), GpuLayout(vfs=5)),
    "partition": Way(HGX, (vm("a", gpus=(PAIR,)),)),
}


class Bench:
    """A world that is partitioned, with what its host showed before anything was made."""

    def __init__(self, folder: Path, way: Way) -> None:
        folder.mkdir()
        self.world = SimWorld(folder, way.host)
        self._vms = way.vms
        if way.layout is not None:
            self.world.cut(way.layout)
        while way.host.fabric and self.world.facts().fabric is None:
            self.world.engine.refresh()
        self.empty = self.sound()

    def apply(self, engine: Engine) -> None:
        engine.apply(self._vms)[1].raise_for_failure()

    def delete(self, engine: Engine) -> None:
        names = [each.name for each in self.world.ledger.vms()]
        engine.delete(names, keep_disks=False, force=True).raise_for_failure()

    def killed(self, command: Command, at: int, *, after: bool) -> bool:
        """Die at the n-th durable write of a command; False when it had fewer."""
        mortal = Mortal(self.world.ledger, at, after=after)
        try:
            command(replace(self.world.engine, ledger=mortal))  # type: ignore[arg-type]
        except Killed:
            self.world.restart()
            return True
        return False

    def sound(self) -> object:
        """What is on the host; claims are allocations or layouts, and nothing is held twice."""
        held = self.world.ledger.allocations()
        slots = [(each.gpu, slot) for each in held for slot in each.slots]
        vfs = [(each.gpu, each.vf) for each in held if each.vf is not None]
        devices = [each.device for each in held]
        for things in (slots, vfs, devices):
            assert len(set(things)) == len(things)
        facts = self.world.facts()
        held_by = {each.id for each in held} | {each.gpu for each in self.world.ledger.layouts()}
        assert {claim.allocation for claim in facts.claims} == held_by
        assert not self.world.engine.layout_plan(None).gpus
        used = [device for domain in facts.domains for device in domain.devices]
        companions = [each for allocation in held for each in allocation.companions]
        assert sorted(used) == sorted(devices + companions)
        assert not self.world.ledger.operations(open_only=True)
        return shown(facts)


def shown(facts: HostFacts) -> object:
    """What of a probe is the same for the same work: no ids that were rolled."""
    claims = [(c.vm, c.unit.split("-")[0], str(c.wanted.get("instance"))) for c in facts.claims]
    return (
        sorted((each.name, each.state) for each in facts.domains),
        sorted(claims),
        sorted((each.parent, each.type_id) for each in facts.mdevs),
        [_partitioned(gpu) for gpu in facts.gpus],
        [each.id for each in (facts.fabric.partitions if facts.fabric else ()) if each.active],
    )


def _partitioned(gpu: GpuFacts) -> object:
    found = gpu.mig and [(each.profile, each.start) for each in gpu.mig.instances or ()]
    vfs = [(vf.address, vf.vendor and vf.vendor.type_id) for vf in gpu.vfs]
    return gpu.device, gpu.driver, found, vfs, gpu.mixed_size, gpu.scheduler


@contextmanager
def bench(folder: Path, way: Way) -> Iterator[Bench]:
    made = Bench(folder, way)
    yield made
    made.world.close()


def same(bench: Bench, command: Command) -> None:
    command(bench.world.engine)


def resume(bench: Bench, _: Command) -> None:
    for operation in bench.world.ledger.operations(open_only=True):
        bench.world.engine.resume(operation.id).raise_for_failure()


def undo(bench: Bench, _: Command) -> None:
    for operation in bench.world.ledger.operations(open_only=True):
        bench.world.engine.undo(operation.id)


ENDS = (same, resume, undo)


@pytest.mark.parametrize("name", WAYS)
def test_vms_are_made_and_deleted_whatever_dies(name: str, tmp_path: Path) -> None:
    """Each kill point with one end after the other: over all ways every pair is seen."""
    with bench(tmp_path / "way", WAYS[name]) as made:
        made.apply(made.world.engine)
        full = made.sound()
        made.delete(made.world.engine)
        turn = list(WAYS).index(name)
        for at in count(1):
            after, end = bool((at + turn) % 2), ENDS[(at + turn) % 3]
            killed = made.killed(made.apply, at, after=after)
            end(made, made.apply)
            if end is not same:
                made.sound()
                made.apply(made.world.engine)
            assert made.sound() == full, f"killed at write {at}"
            deleted = not made.killed(made.delete, at, after=not after)
            made.delete(made.world.engine)
            assert made.sound() == made.empty, f"killed at write {at} of the deletion"
            if deleted and not killed:
                break
        assert at > 5


@dataclass(frozen=True)
class Turn:
    """A GPU from one layout to another, and a layout of quite another kind."""

    board: str
    before: GpuLayout
    goal: GpuLayout
    other: GpuLayout


def instances(*profiles: str) -> tuple[InstanceGoal, ...]:
    return tuple(InstanceGoal(profile=each) for each in profiles)


CUT = GpuLayout(mig=True, vfs=VFS_MAX, instances=instances("3g.40gb", "2g.20gb"))
MIXED = GpuLayout(mig=False, vfs=VFS_MAX, mixed_size=True, scheduler=Scheduler.EQUAL_SHARE)
OFF = GpuLayout(mig=False, vfs=0, instances=())
TURNS = (
    Turn("A100-PCIE-80GB", OFF, CUT, MIXED),
    Turn("A100-PCIE-80GB", CUT, replace(CUT, instances=instances("4g.40gb", "1g.10gb")), OFF),
    Turn("A100-PCIE-80GB", CUT, MIXED, CUT),
    Turn("FLEX-170", GpuLayout(vfs=4), GpuLayout(vfs=8), GpuLayout(vfs=0)),
)


def by_same(world: SimWorld, turn: Turn) -> GpuLayout:
    world.cut(turn.goal)
    return turn.goal


def by_resume(world: SimWorld, turn: Turn) -> GpuLayout:
    """What was never begun is not resumed."""
    for operation in world.ledger.operations(open_only=True):
        world.engine.resume(operation.id).raise_for_failure()
    [record] = world.ledger.layouts()
    assert record.settled
    return record.goal


def by_another(world: SimWorld, turn: Turn) -> GpuLayout:
    world.cut(turn.other)
    return turn.other


LAYOUT_ENDS = (by_same, by_resume, by_another)


@pytest.mark.parametrize("turn", TURNS, ids=["cut", "recut", "mixed", "plain"])
def test_a_layout_is_reached_whatever_dies(turn: Turn, tmp_path: Path) -> None:
    """And the GPU takes VMs again when it is as declared, not before."""
    spec = LayoutSpec(name="cut", hosts=("h1",), rules=(LayoutRule(layout=turn.goal),))

    def apply(engine: Engine) -> None:
        engine.layout_apply([spec])[1].raise_for_failure()

    with bench(tmp_path / "turn", Way(host(turn.board), (), turn.before)) as made:
        shift = TURNS.index(turn)
        for at in count(1):
            killed = made.killed(apply, at, after=bool((at + shift) % 2))
            [record] = made.world.ledger.layouts()
            assert bool(made.world.supply().blocked) is not record.settled
            assert_known_to_its_host(made.world, turn)
            reached = LAYOUT_ENDS[(at + shift) % 3](made.world, turn)
            assert layout.differences(made.world.gpu(), reached, ()) == ()
            assert not made.world.ledger.operations(open_only=True)
            assert not made.world.supply().blocked
            made.world.cut(turn.before)
            if not killed:
                break
        assert at > 5


def kept(world: SimWorld) -> Mapping[str, object]:
    """What the host keeps of the one GPU's layout."""
    [claim] = world.facts().claims
    return claim.wanted


def assert_known_to_its_host(world: SimWorld, turn: Turn) -> None:
    """Where anything has changed, the host's next boot will know of it."""
    if layout.differences(world.gpu(), turn.before, ()):
        assert kept(world) != kept_of(world, turn.before)


def kept_of(world: SimWorld, goal: GpuLayout) -> Mapping[str, object]:
    gpu = world.gpu()
    changes = layout.plan(gpu, goal, (), ())[1]
    parts = layout.kept_parts(layout.to_keep(reduce(layout.apply_change, changes, gpu), goal, ()))
    return {"kind": "layout", "gpu": gpu.device, **parts}


@pytest.mark.parametrize("turn", TURNS, ids=["cut", "recut", "mixed", "plain"])
def test_a_reboot_amid_a_layout_ends_it(turn: Turn, tmp_path: Path) -> None:
    """The controller is dead and stays so: the host has the old layout or the new one, whole."""
    spec = LayoutSpec(name="cut", hosts=("h1",), rules=(LayoutRule(layout=turn.goal),))

    def apply(engine: Engine) -> None:
        engine.layout_apply([spec])[1].raise_for_failure()

    seen = set()
    with bench(tmp_path / "turn", Way(host(turn.board), (), turn.before)) as made:
        made.world.sim.host("h1").install()
        for at in count(1):
            killed = made.killed(apply, at, after=bool(at % 2))
            half_way = bool(layout.differences(made.world.gpu(), turn.before, ()))
            made.world.sim.inject("h1", ["reboot"])
            gpu = made.world.gpu()
            reached = [layout.differences(gpu, goal, ()) == () for goal in (turn.before, turn.goal)]
            assert any(reached), f"killed at write {at}: neither the old layout nor the new one"
            assert reached[1] or not half_way, f"killed at write {at}: what was begun is not ended"
            seen.add(reached.index(True))
            made.world.cut(turn.before)
            if not killed:
                break
        assert (at > 5, seen) == (True, {0, 1})

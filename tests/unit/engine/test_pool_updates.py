"""An owner's desktop gets a new image: its first disk, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import DESKTOP, NEW, OLD, PoolSim, spec
from vgpumgr.engine.steps.domain_steps import StartDomain
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.volume_steps import CreateVolume, DeleteReplaced
from vgpumgr.model.desktop import RolloutPhase
from vgpumgr.model.errors import Conflict, HostUnreachable
from vgpumgr.model.pool import PoolKind
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_devices import DiskSpec, NicSpec

pytestmark = pytest.mark.thorough

DATA = DiskSpec(size_bytes=1 << 20)
NAME = "cad-01"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PoolSim]:
    """ada owns a desktop with a disk of her own, and is not on it; a spare is there beside it."""
    desktop = replace(DESKTOP, disks=(*DESKTOP.disks, DATA), nics=(NicSpec(network="default"),))
    made = PoolSim(tmp_path, spec(kind=PoolKind.DEDICATED, desktop=desktop), "h1")
    made.turn()
    assert made.assign("ada").desktop == NAME
    made.engine.release_desktop("cad", "ada")
    made.turn()
    yield made
    made.world.close()


def volumes(world: PoolSim) -> set[str]:
    mine = f"{NAME}-"
    return {
        each.name
        for each in world.world.sim.hosts["h1"].storage.volumes("default")
        if each.name.startswith(mine)
    }


def image(world: PoolSim) -> str:
    return world.rows()[NAME].desktop.image


def proven(world: PoolSim, pushed: str = NEW) -> None:
    """The new image has its canary, which has stayed ready."""
    world.engine.push_image("cad", pushed)
    world.turn()


def runs(world: PoolSim) -> bool:
    return (NAME, "running") in {
        (each.name, str(each.state)) for each in world.world.facts().domains
    }


def mac(world: PoolSim) -> str:
    return world.world.sim.hosts["h1"].domains.xml(NAME).partition("mac address")[2][:20]


def test_an_owners_desktop_gets_its_first_disk_anew(world: PoolSim) -> None:
    before, address = world.ledger.vm(NAME), mac(world)
    held = [each.id for each in world.ledger.allocations() if each.vm_id == before.id]
    proven(world)
    world.turn(400)
    after = world.ledger.vm(NAME)
    assert (after.id, after.state, after.running) == (before.id, VmState.ACTIVE, True)
    assert [each.image for each in after.spec.disks] == [f"{NEW}.qcow2", None]
    assert after.volumes[1:] == before.volumes[1:]
    assert volumes(world) == {name for _, name in after.volumes}, "the old one is gone"
    assert [each.id for each in world.ledger.allocations() if each.vm_id == after.id] == held
    assert mac(world) == address
    assert runs(world)
    it = world.rows()[NAME].desktop
    assert (it.owner, it.image, str(it.state)) == ("ada", NEW, "ready")
    assert world.assign("ada").desktop == NAME
    world.turn()
    rollout = world.ledger.pool("cad").rollout
    assert rollout is not None and rollout.phase is RolloutPhase.DONE
    assert world.engine.drift().drifts == ()


def test_its_next_image_comes_the_same_way(world: PoolSim) -> None:
    first = world.ledger.vm(NAME).volumes
    for pushed in (NEW, OLD):
        proven(world, pushed)
        world.turn(400)
        world.turn()
        assert image(world) == pushed
    assert world.ledger.vm(NAME).volumes == first


def test_nobody_is_taken_off_it(world: PoolSim) -> None:
    before = world.ledger.vm(NAME)
    world.assign("ada")
    proven(world)
    world.turn(400)
    world.turn(400)
    assert world.ledger.vm(NAME) == before
    world.engine.release_desktop("cad", "ada")
    world.turn()
    assert image(world) == NEW


def test_it_comes_back_as_it_was_where_it_does_not_start(world: PoolSim) -> None:
    before = world.ledger.vm(NAME)
    proven(world)
    world.world.sim.inject("h1", ["refuse", "domains.start", "EIO", "1"])
    world.turn(400)
    after = world.ledger.vm(NAME)
    assert _but_generation(after) == _but_generation(before)
    assert volumes(world) == {name for _, name in before.volumes}
    row = world.rows()[NAME]
    assert (row.desktop.image, str(row.desktop.state), row.doing) == (OLD, "ready", None)
    assert row.desktop.failures == 1 and row.why
    assert runs(world)
    world.turn()
    assert image(world) == OLD, "not again at once"
    world.turn(61)
    assert (image(world), world.rows()[NAME].desktop.failures) == (NEW, 0)


def test_an_image_that_is_no_good_is_never_tried(world: PoolSim) -> None:
    before = world.ledger.vm(NAME)
    proven(world)
    world.world.sim.hosts["h1"].storage.delete("default", f"{NEW}.qcow2")
    worked = world.turn(400)
    assert "is not in pool" in worked.refused[NAME]
    assert _but_generation(world.ledger.vm(NAME)) == _but_generation(before)
    assert (image(world), world.states()[NAME]) == (OLD, "ready")


@pytest.mark.parametrize("step", [CreateVolume, StartDomain])
def test_what_is_cut_goes_on(
    world: PoolSim, step: type[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = _cut(world, step, monkeypatch)
    assert world.ledger.vm(NAME).state is VmState.RESERVED
    assert "is creating" in world.assign("ada").waits
    world.engine.resume(cut)
    world.turn()
    session = world.rows()[NAME].desktop.session
    assert session is not None and session.user == "ada"
    assert (image(world), world.states()[NAME]) == (NEW, "ready")
    assert volumes(world) == {name for _, name in world.ledger.vm(NAME).volumes}


def test_what_is_cut_can_be_taken_back(world: PoolSim, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.ledger.vm(NAME)
    world.engine.undo(_cut(world, StartDomain, monkeypatch))
    assert _but_generation(world.ledger.vm(NAME)) == _but_generation(before)
    assert volumes(world) == {name for _, name in before.volumes}
    assert runs(world)


def test_there_is_no_way_back_once_the_old_disk_is_gone(
    world: PoolSim, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = _cut(world, DeleteReplaced, monkeypatch)
    with pytest.raises(Conflict, match="can no longer be undone") as refused:
        world.engine.undo(cut).raise_for_failure()
    assert refused.value.why == "the disk that it had is deleted"
    world.engine.resume(cut).raise_for_failure()
    world.turn()
    assert (image(world), world.states()[NAME]) == (NEW, "ready")
    assert runs(world)


def _cut(world: PoolSim, step: type[Step], monkeypatch: pytest.MonkeyPatch) -> str:
    """The operation of an update whose connection is lost right after a step's effect."""
    proven(world)
    act = step.act

    def cut(self: Step, host: Host, clock: Clock) -> None:
        act(self, host, clock)
        raise HostUnreachable("cut")

    with monkeypatch.context() as patched:
        patched.setattr(step, "act", cut)
        world.turn(400)
    left = world.ledger.operations(open_only=True)
    return next(each.id for each in left if each.kind == "reimage")


def _but_generation(vm: VmRecord) -> VmRecord:
    return replace(vm, generation=0)

"""Replicas that a file has no longer: told, and deleted by `apply --prune` alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from tests.unit.engine.test_rolling import assert_all_run
from vgpumgr.endpoints.replica_surplus import Surplus, surplus_of
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.vms.vm_pruning import Pruning
from vgpumgr.model.errors import Conflict, NoPlacement, UsersAtWork
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import DiskSpec, NicSpec

DISK = DiskSpec(size_bytes=1 << 20)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, *(host("T4", "T4", "T4", name=name) for name in ("h1", "h2")))
    made.engine.refresh()
    yield made
    made.close()


def replicas(count: int, profile: str = "T4-2Q", **fields: object) -> list[VmSpec]:
    more = {"disks": (DISK,)} | fields
    return [vm(f"d-{number:02d}", profile, **more) for number in range(1, count + 1)]


def surplus(world: SimWorld, specs: list[VmSpec]) -> Surplus:
    return surplus_of(world.ledger, specs)


def pruned(world: SimWorld, specs: list[VmSpec], **more: object) -> Outcome:
    names = surplus(world, specs).names
    _, outcome = world.engine.apply(specs, restart=True, pruning=Pruning(names), **more)  # type: ignore[arg-type]
    return outcome


def names(world: SimWorld) -> list[str]:
    return [each.name for each in world.ledger.vms()]


def volumes(world: SimWorld) -> int:
    return sum(
        len(world.hosts.open(each).storage.volumes("default")) for each in world.ledger.hosts()
    )


def test_forty_replicas_become_thirty_and_then_fifty(world: SimWorld) -> None:
    empty = volumes(world)
    for size in (40, 30, 50):
        pruned(world, replicas(size, "T4-1Q")).raise_for_failure()
        assert names(world) == [each.name for each in replicas(size)]
        assert len(world.ledger.allocations()) == size
        assert volumes(world) == empty + size
    assert_all_run(world)


def test_without_leave_nothing_is_deleted(world: SimWorld) -> None:
    world.apply(*replicas(3))
    world.apply(*replicas(1))
    assert len(names(world)) == 3
    assert surplus(world, replicas(1)).names == ("d-02", "d-03")
    assert "--prune" in surplus(world, replicas(1)).notes()[1]


def test_what_is_off_goes_first_and_then_the_last_replica(world: SimWorld) -> None:
    world.apply(*replicas(5))
    world.engine.stop_vms(["d-03"], force=True, timeout_s=5.0).raise_for_failure()
    outcome = pruned(world, replicas(1))
    outcome.raise_for_failure()
    tasks = [each.vm for each in world.ledger.tasks(outcome.operation) if each.verb == "delete"]
    assert tasks == ["d-03", "d-05", "d-04", "d-02"]


def test_disks_are_kept_where_that_is_asked_for(world: SimWorld) -> None:
    world.apply(*replicas(2))
    before = volumes(world)
    keeping = Pruning(surplus(world, replicas(1)).names, keep_disks=True)
    world.engine.apply(replicas(1), pruning=keeping)[1].raise_for_failure()
    assert names(world) == ["d-01"] and volumes(world) == before


def test_a_vm_that_only_has_such_a_name_is_left_alone(world: SimWorld) -> None:
    world.apply(*replicas(2), vm("d-07", nics=(NicSpec(network="default"),)), vm("e-09"))
    found = surplus(world, replicas(1))
    assert (found.names, [each.name for each in found.others]) == (("d-02",), ["d-07"])
    pruned(world, replicas(1)).raise_for_failure()
    assert names(world) == ["d-01", "d-07", "e-09"]


def test_one_of_an_earlier_version_of_the_file_is_a_replica(world: SimWorld) -> None:
    world.apply(*replicas(3))
    world.engine.apply(replicas(2, vcpus=2), restart=True)[1].raise_for_failure()
    assert surplus(world, replicas(2, vcpus=2)).names == ("d-03",)


def test_its_room_serves_the_rest(world: SimWorld) -> None:
    """Six GPUs are full; what grows needs the GPUs of what goes."""
    world.apply(*replicas(12, "T4-8Q"))
    larger = replicas(6, "T4-16Q")
    with pytest.raises(NoPlacement):
        world.engine.apply(larger, restart=True)
    assert len(names(world)) == 12
    outcome = pruned(world, larger)
    outcome.raise_for_failure()
    assert [each.spec for each in world.ledger.vms()] == larger
    assert_all_run(world)


def test_nothing_is_deleted_where_the_rest_is_refused(world: SimWorld) -> None:
    world.apply(*replicas(3))
    gone = Pruning(surplus(world, replicas(1)).names)
    with pytest.raises(Conflict, match="the change needs a stop of d-01"):
        world.engine.apply(replicas(1, vcpus=2), pruning=gone)
    with pytest.raises(NoPlacement):
        world.engine.apply([*replicas(1), vm("e", *["T4-16Q"] * 7)], pruning=gone)
    assert len(names(world)) == 3


def test_users_are_named_and_nothing_is_deleted(world: SimWorld) -> None:
    world.apply(*replicas(3, agent=True))
    world.sim.inject(world.ledger.vm("d-03").host, ["guest", "d-03", "users", "1"])
    with pytest.raises(UsersAtWork, match="1 user on d-03"):
        pruned(world, replicas(1, agent=True))
    assert len(names(world)) == 3
    pruned(world, replicas(1, agent=True), with_users=True).raise_for_failure()
    assert names(world) == ["d-01"]


def test_a_prune_killed_anywhere_is_finished_by_the_same_command(tmp_path: Path) -> None:
    for at in count(1, 3):
        (tmp_path / str(at)).mkdir()
        world = SimWorld(tmp_path / str(at), host("T4"))
        world.engine.refresh()
        world.apply(*replicas(3))
        mortal = Mortal(world.ledger, at, after=bool(at % 2))
        wanted, killed = replicas(1, vcpus=2), False
        try:
            engine = replace(world.engine, ledger=mortal)  # type: ignore[arg-type]
            gone = Pruning(surplus(world, wanted).names)
            engine.apply(wanted, restart=True, pruning=gone)
        except Killed:
            killed = True
            world.restart()
        pruned(world, wanted).raise_for_failure()
        assert [each.spec for each in world.ledger.vms()] == wanted
        assert_all_run(world)
        world.close()
        if not killed:
            break

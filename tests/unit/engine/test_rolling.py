"""Rolling changes: waves of VMs, each once the one before runs again; stopped, killed, resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.fakes import FakeHost
from tests.property.test_engine_kill_points import Killed, Mortal
from tests.serving import Killed as Stopped
from tests.serving import kill_at, live_on, serving
from tests.simworld import SimWorld, host, vm
from tests.world import World
from tests.world import vm as plain
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, NoPlacement, RollStopped, UsersAtWork, VgpumgrError
from vgpumgr.model.operation import ROLL, OperationState, TaskState
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import GpuRequest, VmSpec, VmState

TWO = Rolling(group="d", at_once=2, within_s=0.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = fleet(tmp_path)
    yield made
    made.close()


def fleet(folder: Path, count: int = 5, profile: str = "T4-2Q", **fields: object) -> SimWorld:
    """Two hosts with a T4 each, and ``count`` VMs."""
    made = SimWorld(folder, *(host("T4", "T4", name=name) for name in ("h1", "h2")))
    made.engine.refresh()
    made.apply(*desks(count, profile, **fields))
    return made


def desks(count: int = 5, profile: str = "T4-2Q", **fields: object) -> list[VmSpec]:
    return [vm(f"d-{number:02d}", profile, **fields) for number in range(1, count + 1)]


def larger(count: int = 5, **fields: object) -> list[VmSpec]:
    """The same with more memory: a stop and a start each."""
    return [replace(each, memory_mib=1024) for each in desks(count, **fields)]


def rolling(specs: Sequence[VmSpec], how: Rolling = TWO) -> Mapping[str, Rolling]:
    return {each.name: how for each in specs}


def roll(world: SimWorld, specs: Sequence[VmSpec], **more: object) -> tuple[Plan, Outcome]:
    return world.engine.apply(specs, restart=True, rolling=rolling(specs), **more)  # type: ignore[arg-type]


def changed(world: SimWorld, specs: Sequence[VmSpec]) -> list[str]:
    """The names of those that are as asked, in the ledger."""
    known = {each.name: each.spec for each in world.ledger.vms()}
    return [each.name for each in specs if known[each.name] == each]


def assert_all_run(world: SimWorld) -> None:
    hosts = {host.name: world.facts(host.name).domains for host in world.ledger.hosts()}
    allocations = world.ledger.allocations()
    for each in world.ledger.vms():
        [domain] = [d for d in hosts[each.host] if d.name == each.name]
        held = [held for held in allocations if held.vm_id == each.id]
        assert each.state is VmState.ACTIVE and domain.state is DomainState.RUNNING
        assert set(domain.devices) == {held.device for held in held}
        assert domain.memory_mib == each.spec.memory_mib
    assert not world.ledger.operations(open_only=True)


def test_waves_follow_each_other_in_one_operation(world: SimWorld) -> None:
    told: list[str] = []
    before = {each.id for each in world.ledger.operations()}
    engine = replace(world.engine, tell=told.append)
    planned, outcome = engine.apply(larger(), restart=True, rolling=rolling(larger()))
    outcome.raise_for_failure()
    assert [each.wave for each in planned.actions] == [1, 1, 2, 2, 3]
    assert [line for line in told if line.startswith("wave")] == [
        "wave 2 of 3: d-03, d-04",
        "wave 3 of 3: d-05",
    ]
    [operation] = [each for each in world.ledger.operations() if each.id not in before]
    assert operation.state is OperationState.DONE
    assert {each.verb for each in outcome.vms} == {"change"}
    assert len(outcome.done) == 5
    assert changed(world, larger()) == [each.name for each in larger()]
    assert_all_run(world)


def test_no_more_than_a_wave_is_off_at_a_time(world: SimWorld) -> None:
    off: list[int] = []

    def heard(_: object) -> None:
        domains = [d for name in ("h1", "h2") for d in world.facts(name).domains]
        off.append(sum(each.state is not DomainState.RUNNING for each in domains))

    replace(world.engine, progress=heard).apply(larger(), restart=True, rolling=rolling(larger()))
    assert len(off) == 5 and max(off) <= 2


def test_each_group_has_waves_of_its_own(world: SimWorld) -> None:
    one = Rolling(group="first", at_once=1)
    ways = {each.name: one if number < 2 else TWO for number, each in enumerate(larger())}
    planned = world.engine.plan(larger(), ways)
    assert [each.wave for each in planned.actions] == [1, 2, 1, 1, 2]
    assert planned.waves == 2


def test_what_needs_no_stop_is_done_at_once(world: SimWorld) -> None:
    world.engine.stop_vms(["d-04"], force=True, timeout_s=5.0).raise_for_failure()
    labelled = [*larger()[:4], replace(desks()[4], labels={"team": "cad"})]
    planned, outcome = roll(world, labelled)
    outcome.raise_for_failure()
    assert [each.wave for each in planned.actions] == [1, 1, 2, 0, 0]
    assert changed(world, labelled) == [each.name for each in labelled]


def test_without_leave_to_stop_nothing_is_stopped(world: SimWorld) -> None:
    with pytest.raises(Conflict, match="the change needs a stop of"):
        world.engine.apply(larger(), rolling=rolling(larger()))
    assert changed(world, desks()) == [each.name for each in desks()]


def test_a_guest_that_does_not_come_back_stops_the_roll(world: SimWorld) -> None:
    engine = replace(world.engine, progress=lambda ended: switched_off(world, ended.vm))
    _, outcome = engine.apply(larger(), restart=True, rolling=rolling(larger()))
    with pytest.raises(RollStopped) as caught:
        outcome.raise_for_failure()
    assert caught.value.message == "stopped after wave 2 of 3: 4 of 5 VMs are changed"
    assert caught.value.why == "not up: d-03: it is shutoff; left as they were: d-05"
    assert caught.value.next.startswith(
        "vgpumgr vm show d-03, then vgpumgr apply -f FILE --restart"
    )
    assert changed(world, larger()) == ["d-01", "d-02", "d-03", "d-04"]
    states = {each.vm: (each.verb, each.state) for each in outcome.vms}
    assert states["d-05"] == (ROLL, TaskState.UNDONE)
    assert world.ledger.operation(outcome.operation).state is OperationState.PARTLY
    world.engine.start(["d-03"]).raise_for_failure()
    roll(world, larger())[1].raise_for_failure()
    assert_all_run(world)


def switched_off(world: SimWorld, name: str) -> None:
    if name == "d-03":
        world.sim.inject(world.ledger.vm(name).host, ["destroy", name])


def test_the_last_wave_has_to_run_too(world: SimWorld) -> None:
    engine = replace(world.engine, progress=lambda ended: switched_off(world, ended.vm))
    specs = larger()[:3]
    _, outcome = engine.apply(specs, restart=True, rolling=rolling(specs))
    with pytest.raises(RollStopped, match="after wave 2 of 2: 3 of 3 VMs are changed"):
        outcome.raise_for_failure()
    assert "left as" not in str(outcome.stopped and outcome.stopped.why)


def test_a_silent_guest_agent_stops_the_roll(tmp_path: Path) -> None:
    world = fleet(tmp_path, agent=True)
    how = replace(TWO, agent=True)
    specs = larger(agent=True)

    def silence(ended: object) -> None:
        if getattr(ended, "vm", "") == "d-02":
            world.sim.inject(world.ledger.vm("d-02").host, ["guest", "d-02", "silent"])

    engine = replace(world.engine, progress=silence)
    _, outcome = engine.apply(specs, restart=True, rolling=rolling(specs, how))
    with pytest.raises(RollStopped, match="after wave 1 of 3: 2 of 5") as caught:
        outcome.raise_for_failure()
    assert caught.value.why.startswith("not up: d-02: its guest agent does not answer")
    world.close()


def test_a_refused_seat_stops_the_roll_and_leaves_the_rest(world: SimWorld) -> None:
    for name in ("h1", "h2"):
        world.sim.inject(name, ["refuse", "mdev_create", "EIO", "1000"])
    specs = desks(profile="T4-1Q")
    _, outcome = roll(world, specs)
    with pytest.raises(RollStopped, match="after wave 1 of 3: 0 of 5 VMs are changed"):
        outcome.raise_for_failure()
    assert changed(world, desks()) == [each.name for each in desks()]
    assert_all_run(world)


def test_users_are_named_before_any_wave(tmp_path: Path) -> None:
    world = fleet(tmp_path, agent=True)
    world.sim.inject(world.ledger.vm("d-05").host, ["guest", "d-05", "users", "2"])
    specs = larger(agent=True)
    with pytest.raises(UsersAtWork, match="users would be cut off: 2 users on d-05") as caught:
        roll(world, specs)
    assert "--with-users" in caught.value.next
    assert changed(world, specs) == []
    roll(world, specs, with_users=True)[1].raise_for_failure()
    assert_all_run(world)
    world.close()


def test_users_who_come_meanwhile_stop_it_before_their_wave(tmp_path: Path) -> None:
    world = fleet(tmp_path, agent=True)
    specs = larger(agent=True)

    def log_in(_: object) -> None:
        world.sim.inject(world.ledger.vm("d-05").host, ["guest", "d-05", "users", "1"])

    _, outcome = replace(world.engine, progress=log_in).apply(
        specs, restart=True, rolling=rolling(specs)
    )
    with pytest.raises(RollStopped, match="after wave 2 of 3: 4 of 5") as caught:
        outcome.raise_for_failure()
    assert "1 user on d-05" in caught.value.why
    assert changed(world, specs) == ["d-01", "d-02", "d-03", "d-04"]
    world.close()


def test_what_was_changed_or_deleted_since_it_was_cut_is_left_alone(world: SimWorld) -> None:
    cut_after(world, 2)
    [operation] = world.ledger.operations(open_only=True)
    mine = replace(desks()[3], labels={"team": "cad"})
    world.engine.apply([mine])[1].raise_for_failure()
    world.delete("d-03")
    with pytest.raises(VgpumgrError, match="1 of 2 VMs are done"):
        world.engine.resume(operation.id).raise_for_failure()
    assert world.ledger.vm("d-04").spec == mine
    rest = [each for each in larger() if each.name != "d-03"]
    assert changed(world, rest) == ["d-01", "d-02", "d-05"]
    assert_all_run(world)


def cut_after(world: SimWorld, tasks: int) -> None:
    """The process dies when so many VMs are changed."""
    ended = count(1)

    def die(_: object) -> None:
        if next(ended) == tasks:
            raise Killed

    with pytest.raises(Killed):
        replace(world.engine, progress=die).apply(larger(), restart=True, rolling=rolling(larger()))
    world.restart()


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[SimWorld]:
    """Eight places for T4-4Q, four of them taken."""
    made = SimWorld(tmp_path, host("T4", "T4"))
    made.engine.refresh()
    made.apply(*desks(4, "T4-4Q"))
    yield made
    made.close()


ONE = Rolling(group="d", at_once=1)


def doubled(count: int) -> list[VmSpec]:
    """They are to have two parts each."""
    both = (GpuRequest(profile="T4-4Q"), GpuRequest(profile="T4-4Q"))
    return [replace(each, gpus=both) for each in desks(count)]


def test_later_waves_have_what_earlier_ones_leave(pairs: SimWorld) -> None:
    pairs.delete("d-04")
    wanted = doubled(3)
    assert any(each.releases_first for each in pairs.engine.plan(wanted).actions)
    planned, outcome = pairs.engine.apply(wanted, restart=True, rolling=rolling(wanted, ONE))
    outcome.raise_for_failure()
    assert planned.waves == 3 and not any(each.releases_first for each in planned.actions)
    assert [len(each.spec.gpus) for each in pairs.ledger.vms()] == [2, 2, 2]
    assert_all_run(pairs)


def test_a_later_wave_without_room_is_said_before_the_first(pairs: SimWorld) -> None:
    pairs.apply(vm("other", "T4-4Q"))
    wanted = doubled(4)
    with pytest.raises(NoPlacement, match="d-04 cannot be placed"):
        pairs.engine.apply(wanted, restart=True, rolling=rolling(wanted, ONE))
    assert changed(pairs, desks(4, "T4-4Q")) == [each.name for each in desks(4)]


def test_serve_ends_the_wave_that_had_begun_and_leaves_the_next_to_a_person(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, FakeHost("h1"))
    small = [plain(f"v{number}") for number in range(3)]
    wanted = [replace(each, audio=True) for each in small]
    world.engine.apply(small)[1].raise_for_failure()
    kill_at(world, "start")
    with pytest.raises(Stopped):
        world.engine.apply(wanted, restart=True, rolling=rolling(wanted, ONE))
    live_on(world)
    world.restart()
    served = serving(world)
    served.serve(40)
    [event] = served.told(EventKind.NEEDS_OPERATOR)
    [operation] = world.ledger.operations(open_only=True)
    assert "a person begins" in operation.summary and "operation resume" in event.next
    names = [each.name for each in world.ledger.vms() if each.spec in wanted]
    assert names == ["v0"] and world.hosts["h1"].domains.look("v0").state is DomainState.RUNNING  # type: ignore[union-attr]
    world.engine.resume(operation.id).raise_for_failure()
    assert all(each.spec in wanted for each in world.ledger.vms())
    world.close()


def test_forty_replicas_change_five_at_a_time(tmp_path: Path) -> None:
    """Four full GPUs' worth of desktops on two hosts, in one operation of eight waves."""
    boards = ("T4",) * 5
    world = SimWorld(tmp_path, *(host(*boards, name=name) for name in ("h1", "h2")))
    world.engine.refresh()
    world.apply(*desks(40, "T4-4Q"))
    off: list[int] = []

    def count_off(_: object) -> None:
        every = [d for each in world.sim.hosts.values() for d in each.domains.list()]
        off.append(sum(each.state is not DomainState.RUNNING for each in every))

    wanted = [replace(each, memory_mib=1024) for each in desks(40, "T4-4Q")]
    five = Rolling(group="d", at_once=5)
    planned, outcome = replace(world.engine, progress=count_off).apply(
        wanted, restart=True, rolling=rolling(wanted, five)
    )
    outcome.raise_for_failure()
    assert planned.waves == 8 and len(outcome.done) == 40 and max(off) < 5
    assert changed(world, wanted) == [each.name for each in wanted]
    assert_all_run(world)
    world.close()


@pytest.mark.thorough
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("way_on", ["again", "resume", "undo"])
def test_a_roll_killed_anywhere_is_finished(tmp_path: Path, after: bool, way_on: str) -> None:
    wanted = larger(3)
    for at in count(1, 2):
        (tmp_path / str(at)).mkdir()
        made = fleet(tmp_path / str(at), 3)
        mortal = Mortal(made.ledger, at, after=after)
        killed = False
        try:
            replace(made.engine, ledger=mortal).apply(  # type: ignore[arg-type]
                wanted, restart=True, rolling=rolling(wanted, ONE)
            )
        except Killed:
            killed = True
            made.restart()
        end(made, way_on, wanted)
        assert_all_run(made)
        if way_on == "again":
            assert len(changed(made, wanted)) == 3
        made.close()
        if not killed:
            break
    assert at > 10


def end(world: SimWorld, way_on: str, wanted: Sequence[VmSpec]) -> None:
    if way_on == "again":
        roll(world, wanted)[1].raise_for_failure()
    for each in world.ledger.operations(open_only=True):
        if way_on == "undo":
            try:
                world.engine.undo(each.id)
                continue
            except Conflict:  # a change that has begun only goes forward
                pass
        world.engine.resume(each.id).raise_for_failure()
        assert len(changed(world, wanted)) == 3

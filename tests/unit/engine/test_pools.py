"""A pool worked on simulated hosts: made, given, made anew, updated, healed, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import BAD, NEW, OLD, STAFF, PoolSim, spec
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.pool_task import POOL_THREAD, PoolTask
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.model.desktop import DesktopRequest, DesktopRequestRecord, RolloutPhase
from vgpumgr.model.errors import Conflict, NoPlacement, NotFound, NotPermitted, QuotaExceeded
from vgpumgr.model.pool import Naming, PoolKind, ScaleIn
from vgpumgr.model.quota import Quota
from vgpumgr.store import open_ledger

READY, SHELVED = "ready", "shelved"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[PoolSim]]:
    found: list[PoolSim] = []
    yield found
    for each in found:
        each.world.close()


def sim(made: list[PoolSim], tmp_path: Path, **changes: object) -> PoolSim:
    made.append(PoolSim(tmp_path, spec(**changes), "h1"))  # type: ignore[arg-type]
    made[0].turn()
    return made[0]


def test_a_desktop_is_made_given_left_and_made_anew(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, least=2)
    assert world.states() == {"cad-01": READY, "cad-02": READY}
    first = world.ledger.vm("cad-01")
    assert first.spec.disks[0].image == "cad@1.qcow2"
    given = world.assign("ada")
    assert (given.desktop, given.host) == ("cad-01", "h1")
    world.engine.release_desktop("cad", "ada")
    world.turn()
    assert world.states()["cad-01"] == READY
    assert world.ledger.vm("cad-01").id != first.id, "the next user finds nothing of hers"
    [past] = world.ledger.pool_sessions(world.ledger.pool("cad").id, 10)
    assert (past.user, past.desktop, past.why) == ("ada", "cad-01", "released")
    assert past.closed_at is not None


def test_who_finds_none_waits_in_line_and_gets_the_next(
    made: list[PoolSim], tmp_path: Path
) -> None:
    world = sim(made, tmp_path, spare=0)
    assert world.vms() == []
    assert world.assign("ada").waits == "no desktop is ready"
    world.turn()
    row = world.rows()["cad-01"]
    assert row.desktop.session is None or row.desktop.session.user == "ada"
    world.turn()
    session = world.rows()["cad-01"].desktop.session
    assert session is not None and session.user == "ada"
    assert world.ledger.pool_asks() == ()
    with pytest.raises(NotPermitted, match="not entitled"):
        world.engine.assign_desktop("cad", "eve", {"guests"})
    with pytest.raises(Conflict, match="ada has cad-01, and may have 1"):
        world.assign("ada")
    with pytest.raises(NotFound, match="bob has no desktop"):
        world.engine.release_desktop("cad", "bob")


def test_who_asked_first_comes_first_unless_it_can_get_none(
    made: list[PoolSim], tmp_path: Path
) -> None:
    world = sim(made, tmp_path)
    pool = world.ledger.pool("cad")
    for user, groups in (("eve", frozenset()), ("bob", STAFF)):
        ask = DesktopRequest(user=user, since=1.0, groups=groups)
        world.ledger.ask_desktop(DesktopRequestRecord(id=user, pool=pool.id, ask=ask))
    assert world.assign("ada").waits == "others asked before"
    assert world.assign("bob").desktop == "cad-01", "eve, who asked before, is not entitled"
    world.turn()
    assert world.ledger.pool_asks() == ()
    given = {name: row.desktop.session for name, row in world.rows().items()}
    assert given["cad-02"] is not None and given["cad-02"].user == "ada"


def test_nobody_but_the_pool_takes_a_desktop_away(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path)
    world.assign("ada")
    with pytest.raises(Conflict, match="cad-01 is a desktop of pool cad") as refused:
        world.engine.delete(["cad-01"], keep_disks=False, force=True)
    assert "ada has it" in refused.value.why
    with pytest.raises(Conflict, match="a name that pool cad uses"):
        world.engine.apply([replace(world.ledger.vm("cad-01").spec, name="cad-07")])
    with pytest.raises(Conflict, match="in use"):
        world.engine.delete_pool("cad")
    world.engine.scale_pool("cad", spare=0)
    world.turn(10_000)
    assert "cad-01" in world.states()


def test_a_drained_pool_keeps_its_users_and_goes_when_they_have(
    made: list[PoolSim], tmp_path: Path
) -> None:
    world = sim(made, tmp_path, spare=2)
    world.assign("ada")
    world.engine.drain_pool("cad", on=True)
    world.turn()
    assert list(world.states()) == ["cad-01"]
    with pytest.raises(Conflict, match="being drained"):
        world.assign("bob")
    world.engine.release_desktop("cad", "ada")
    world.engine.delete_pool("cad")
    world.turn()
    world.turn()
    assert (world.vms(), world.ledger.pools()) == ([], ())
    world.engine.put_pool(spec())


def test_a_new_image_comes_by_a_canary(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, spare=2)
    world.engine.push_image("cad", NEW)
    world.turn()
    images = [each.desktop.image for each in world.rows().values()]
    assert sorted(images) == [OLD, OLD, NEW]
    with pytest.raises(Conflict, match="still being rolled out"):
        world.engine.push_image("cad", BAD)
    for _ in range(4):
        world.turn(400)
    assert {each.desktop.image for each in world.rows().values()} == {NEW}
    rollout = world.ledger.pool("cad").rollout
    assert rollout is not None and rollout.phase is RolloutPhase.DONE
    assert {vm.spec.disks[0].image for vm in world.ledger.vms()} == {"cad@2.qcow2"}


def test_a_bad_image_stops_at_its_canary(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, spare=2)
    with pytest.raises(NotFound, match="image cad@3 is on no host"):
        world.engine.push_image("cad", BAD)
    faults = world.world.sim.hosts["h1"].faults
    faults.inject(["unreachable"])
    world.engine.push_image("cad", BAD)  # a host that cannot be asked may have it
    faults.inject(["clear"])
    worked = world.turn()
    assert any("cad@3.qcow2 is not in pool" in why for why in worked.refused.values())
    worked = world.turn(120)
    world.turn(120)
    rollout = world.ledger.pool("cad").rollout
    assert rollout is not None and rollout.phase is RolloutPhase.BACK
    assert {each.desktop.image for each in world.rows().values()} == {OLD}
    assert set(world.states().values()) == {READY}
    assert [each.code for each in worked.warnings["cad"]][-1] == "stopped"


def test_a_guest_that_died_is_started_again_under_its_user(
    made: list[PoolSim], tmp_path: Path
) -> None:
    world = sim(made, tmp_path)
    world.assign("ada")
    vm = world.ledger.vm("cad-01")
    world.world.sim.hosts["h1"].domains.shutdown("cad-01")
    world.engine.refresh()
    world.turn()
    assert world.states()["cad-01"] == "failed"
    world.turn(61)
    world.turn()
    assert world.states()["cad-01"] == READY
    assert world.ledger.vm("cad-01").id == vm.id
    session = world.rows()["cad-01"].desktop.session
    assert session is not None and session.user == "ada"


def test_too_many_are_put_on_the_shelf_and_come_back(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, least=2, scale_in=ScaleIn.SHELVE)
    world.engine.scale_pool("cad", least=0)
    world.turn(1000)
    world.turn()
    assert sorted(world.states().values()) == [READY, SHELVED]
    world.engine.scale_pool("cad", least=2)
    world.turn()
    world.turn()
    assert sorted(world.states().values()) == [READY, READY]


def test_an_owners_desktop_stays_the_owners(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, kind=PoolKind.DEDICATED)
    vm = world.ledger.vm(world.assign("ada").desktop)
    world.engine.release_desktop("cad", "ada")
    world.turn(5000)
    assert world.ledger.vm(vm.name).id == vm.id
    assert world.assign("ada").desktop == vm.name
    world.engine.release_desktop("cad", "ada", for_good=True)
    world.turn()
    assert vm.id not in {each.id for each in world.ledger.vms()}


def test_what_cannot_be_is_refused(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, spare=0)
    other = replace(spec(), name="other")
    with pytest.raises(Conflict, match="would both have a desktop cad-01"):
        world.engine.put_pool(other)
    world.world.apply(replace(spec().desktop, name="lab-1", disks=()))
    with pytest.raises(Conflict, match="lab-1 exists already"):
        world.engine.put_pool(replace(other, naming=Naming("lab-")))
    lacking = replace(other.desktop, gpus=(replace(other.desktop.gpus[0], profile="A40-8Q"),))
    with pytest.raises(NoPlacement) as refused:
        world.engine.put_pool(replace(other, desktop=lacking, naming=Naming("x-")))
    assert "no GPU of the fleet provides A40-8Q; A40 could" in refused.value.why
    world.ledger.set_quota(Quota(tenant="default", vms=2))
    with pytest.raises(QuotaExceeded):
        world.engine.put_pool(replace(spec(least=3), name="other", naming=Naming("x-")))
    change = world.engine.put_pool(replace(spec(), name="other", naming=Naming("x-")))
    assert change.new and "4 vms" in change.warnings[0]


def test_a_quota_is_never_run_against(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, spare=2)
    world.ledger.set_quota(Quota(tenant="default", vms=3))
    world.engine.scale_pool("cad", spare=4)
    worked = world.turn()
    assert (len(world.vms()), worked.refused) == (3, {})
    assert [each.code for each in worked.warnings["cad"]] == ["no-room"]


def test_applying_again_changes_what_is_written(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path)
    assert not world.engine.put_pool(spec()).any
    changed = spec(spare=2, image=NEW)
    change = world.engine.pool_plan(changed)
    assert change.changes == (
        "image: cad@1 → cad@2",
        "size: min 0, spare 1, max 4 → min 0, spare 2, max 4",
    )
    assert world.engine.put_pool(changed) == change
    assert not world.engine.put_pool(changed).any
    rollout = world.ledger.pool("cad").rollout
    assert rollout is not None and (rollout.image, rollout.previous) == (NEW, OLD)


def test_one_controller_has_the_turn_and_warns_once(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, spare=4)
    told: list[ControllerEvent] = []
    turns = PoolTask(world.engine, RetryBackoff(world.clock.monotonic), told.append)
    other = open_ledger(tmp_path / "ledger.db")
    assert other.claim(POOL_THREAD)
    world.engine.scale_pool("cad", spare=5, most=5)
    assert not turns.take(CycleThread(POOL_THREAD, world.clock))
    assert told == []
    other.close()
    for _ in range(2):
        turns.take(CycleThread(POOL_THREAD, world.clock))
    assert [(each.kind, each.state) for each in told] == [(EventKind.POOL_WARNS, "no-room")]
    assert "1 more" in told[0].text


def test_a_missing_image_keeps_nobody_elses_desktop_from_being_made(
    made: list[PoolSim], tmp_path: Path
) -> None:
    world = sim(made, tmp_path, spare=0)
    world.engine.put_pool(
        replace(spec(), name="lab", naming=Naming("lab-"), image="nobody@1", priority=1)
    )
    world.engine.scale_pool("cad", spare=1)
    worked = world.turn()
    assert world.states() == {"cad-01": READY, "lab-1": "failed"}
    assert list(worked.refused) == ["lab-1"]


def test_a_pool_without_desktops_just_has_its_new_image(
    made: list[PoolSim], tmp_path: Path
) -> None:
    """There is none to try it on: an image that nobody could have is no way into a dead end."""
    world = sim(made, tmp_path, spare=0)
    pushed = world.engine.push_image("cad", NEW)
    assert (pushed.image, pushed.rollout) == (NEW, None)
    change = world.engine.put_pool(spec(spare=1, image=OLD))
    assert change.any and world.ledger.pool("cad").rollout is None
    world.turn()
    assert world.ledger.vm("cad-01").spec.disks[0].image == "cad@1.qcow2"


def test_why_none_can_be_made_is_explained(made: list[PoolSim], tmp_path: Path) -> None:
    world = sim(made, tmp_path, most=6, least=4)
    assert world.engine.pool_outlook("cad").refused != "", "one T4 has room for four"
    world.engine.scale_pool("cad", least=1)
    world.turn(after_s=3600)
    assert world.engine.pool_outlook("cad").refused == ""

"""Desktops that become ready are handed over while a cycle of the pools is busy with others."""

from __future__ import annotations

import threading

from tests.poolsim import PoolSim, spec
from tests.unit.engine.test_guest_desktops import GuestPool
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.desktop_task import DESKTOP_THREAD, DesktopTask
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.pools import desktop_action_run
from vgpumgr.engine.pools.desktop_handover import hand_over
from vgpumgr.engine.vms import guest_checks
from vgpumgr.store import open_ledger


def guests_looked_at(pool: GuestPool) -> None:
    guest_checks.turn(pool.engine, guest_checks.with_checks(pool.engine))


def held(pool: PoolSim) -> dict[str, str]:
    rows = pool.rows().items()
    return {name: row.desktop.session.user for name, row in rows if row.desktop.session}


def test_the_longest_waiting_user_gets_the_desktop_whose_guest_is_ready(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    for user in ("ada", "bob"):
        pool.clock.wait(1)
        assert pool.assign(user).desktop == ""
    assert hand_over(pool.engine) == (), "its guest is starting"
    guests_looked_at(pool)
    moved = hand_over(pool.engine)
    assert [(row.name, str(row.desktop.state)) for row in moved] == [("cad-01", "ready")] * 2
    assert held(pool) == {"cad-01": "ada"}
    assert [each.ask.user for each in pool.ledger.pool_asks()] == ["bob"]
    assert hand_over(pool.engine) == ()


def test_no_failed_desktop_is_noted_and_none_is_begun(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    pool.script("cad-01", "fails", "docker", "Cannot connect to the Docker daemon")
    guests_looked_at(pool)
    pool.clock.wait(100)
    guests_looked_at(pool)
    pool.engine.scale_pool("cad", spare=3)
    assert hand_over(pool.engine) == ()
    assert pool.states() == {"cad-01": "creating"}


def test_a_desktop_is_handed_over_while_the_cycle_that_created_it_goes_on(tmp_path, monkeypatch):
    """Its host was looked at before it ran: it is asked again."""
    pool = PoolSim(tmp_path, spec(spare=0, most=2), "h1", "h2")
    assert pool.assign("ada").desktop == ""
    handed: list[bool] = []

    def busy(context, done):
        handed.extend(bool(row.desktop.session) for row in hand_over(pool.engine))

    monkeypatch.setattr(desktop_action_run, "_look_at", busy)
    pool.turn()
    assert handed == [False, True], "noted as ready, and assigned"
    assert held(pool) == {"cad-01": "ada"}


def test_nothing_is_handed_over_while_the_fleet_is_frozen(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    pool.assign("ada")
    guests_looked_at(pool)
    pool.ledger.freeze("a test")
    assert hand_over(pool.engine) == ()


def test_one_controller_hands_over_and_tells(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    guests_looked_at(pool)
    told: list[ControllerEvent] = []
    task = DesktopTask(pool.engine, RetryBackoff(pool.clock.monotonic), told.append)
    lane = CycleThread(DESKTOP_THREAD, pool.clock)
    other = open_ledger(tmp_path / "ledger.db")
    assert other.claim(DESKTOP_THREAD)
    assert not task.take(lane)
    other.close()
    assert task.take(lane) and not task.take(lane)
    assert [(each.kind, each.vm) for each in told] == [(EventKind.DESKTOP_READY, "cad-01")]


def test_two_that_hand_over_at_once_give_each_desktop_once(tmp_path):
    pool = GuestPool(tmp_path, spare=4)
    pool.turn()
    for user in ("ada", "bob", "cyd"):
        pool.assign(user)
    guests_looked_at(pool)
    threads = [threading.Thread(target=hand_over, args=(pool.engine,)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    pool.turn()
    assert sorted(held(pool).values()) == ["ada", "bob", "cyd"]

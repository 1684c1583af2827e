"""When users are told that their session ends, and by which program in the guest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.poolsim import spec
from tests.poolworld import desktop, session
from vgpumgr.engine.desktops.session_ends import EndReason, session_ends
from vgpumgr.engine.migration.user_messages import message
from vgpumgr.engine.pools.session_warnings import BEFORE_S, ending, tell_users
from vgpumgr.model.desktop import DesktopRecord, PoolRecord, Rollout, RolloutPhase
from vgpumgr.model.pool import Timeouts, UpdatePolicy, UpdateWhen

ROW = DesktopRecord(
    id="d", pool="p", vm_id="v", desktop=replace(desktop(1), session=session("ada"))
)


@pytest.mark.parametrize(
    ("left", "told"), [(601, []), (600, [600.0]), (121, [600.0]), (120, [120.0]), (0, []), (-9, [])]
)
def test_at_ten_and_at_two_minutes(left: float, told: list[float]) -> None:
    assert [each.left_s for each in ending([ROW], 10_000.0, 10_000.0 - left)] == told


def test_only_who_is_there() -> None:
    away = replace(session("ada"), disconnected=5.0)
    rows = [
        replace(ROW, desktop=replace(ROW.desktop, session=away)),
        replace(ROW, desktop=replace(ROW.desktop, session=None)),
        replace(ROW, vm_id=""),
    ]
    assert list(ending(rows, 100.0, 50.0)) == []


def test_each_system_has_its_program() -> None:
    assert message("windows-11", 10)[:3] == ("msg.exe", "*", "/TIME:600")
    assert message("", 1) == (
        "wall",
        "This desktop is taken away in 1 minute. Please save your work and log off.",
    )


def test_a_user_is_told_once_and_the_ledger_is_read_only_when_it_is_time() -> None:
    vm = SimpleNamespace(id="v", name=ROW.name, host="h1", spec=SimpleNamespace(agent=False))
    asked: list[list[str]] = []

    def desktops(names: list[str]) -> list[DesktopRecord]:
        asked.append(names)
        return [ROW, replace(ROW, vm_id="another")]

    now, told = [0.0], set[tuple[str, float, float, float]]()
    context: Any = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: now[0]),
        stop=SimpleNamespace(is_set=lambda: False),
        ledger=SimpleNamespace(vms=lambda host: [vm] if host == "h1" else [], desktops=desktops),
    )
    found = []
    for now[0] in (0.0, 399.0, 400.0, 401.0, 880.0, 1000.0, 1001.0):
        found += tell_users(context, "h1", 1000.0, told)
    assert [(each.user, each.minutes) for each in found] == [("ada", 10), ("ada", 2)]
    assert found[0].why == "its file does not say agent: true"
    assert asked == [[ROW.name]] * 3


def pool(**changes: Any) -> PoolRecord:
    rollout = changes.pop("rollout", None)
    return PoolRecord(id="p", spec=spec(**changes), created_at=0.0, rollout=rollout)


def ends(of: PoolRecord, row: DesktopRecord, now: float) -> list[tuple[str, float, str]]:
    found = session_ends(of, [row], now, BEFORE_S)
    return [(each.user, each.at - now, str(each.reason)) for each in found]


def with_session(**changes: Any) -> DesktopRecord:
    there = replace(session("ada"), **changes)
    return replace(ROW, desktop=replace(ROW.desktop, session=there, image="cad@1"))


def test_an_idle_user_is_told_before_the_session_is_disconnected() -> None:
    idle = pool(timeouts=Timeouts(idle_s=3600.0, disconnect_s=900.0))
    row = with_session(since=0.0, active=100.0)
    assert ends(idle, row, 3000.0) == []
    assert ends(idle, row, 3100.0) == [("ada", 600.0, "idle")]
    assert ends(pool(), row, 3600.0) == []
    assert ends(idle, with_session(since=0.0, active=0.0), 3500.0) == [], "never seen at work"


def test_a_disconnected_session_is_told_before_it_is_logged_off() -> None:
    idle = pool(timeouts=Timeouts(idle_s=3600.0, disconnect_s=900.0))
    row = with_session(since=0.0, active=100.0, disconnected=4000.0)
    assert ends(idle, row, 4299.0) == []
    assert ends(idle, row, 4780.0) == [("ada", 120.0, "taken")]


@pytest.mark.parametrize("phase", RolloutPhase)
def test_users_in_the_way_of_an_image_are_told_once_it_is_proven(phase: RolloutPhase) -> None:
    coming = Rollout(image="cad@2", previous="cad@1", since=0.0, phase=phase)
    once = pool(update=UpdatePolicy(when=UpdateWhen.AT_ONCE), rollout=coming)
    told = ends(once, with_session(since=0.0, active=0.0), 300.0)
    assert told == ([("ada", 300.0, "taken")] if phase is RolloutPhase.ROLLING else [])
    later = pool(update=UpdatePolicy(when=UpdateWhen.AT_LOGOFF), rollout=coming)
    assert ends(later, with_session(since=0.0, active=0.0), 300.0) == []


def test_each_reason_has_its_words() -> None:
    assert "is disconnected in 2 minutes" in message("", 2, EndReason.IDLE)[1]
    assert "is stopped now" in message("windows-11", 1, EndReason.NOW)[3]

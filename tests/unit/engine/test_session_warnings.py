"""When users are told that their session ends, and by which program in the guest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.poolworld import desktop, session
from vgpumgr.engine.pools.session_warnings import ending, message, tell_users
from vgpumgr.model.desktop import DesktopRecord

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
    vm = SimpleNamespace(id="v", name=ROW.name, spec=SimpleNamespace(agent=False))
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

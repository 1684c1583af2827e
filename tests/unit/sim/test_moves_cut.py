"""Moves between simulated hosts that are cut: clients and hosts that fail in each phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.sim.moving import (
    HERE,
    PAUSED,
    RUNNING,
    SHUTOFF,
    THERE,
    Two,
    fleet,
    refused,
    with_vgpu,
)
from vgpumgr.model.domain import MoveProgress
from vgpumgr.model.errors import HostRefused, OutcomeUnknown
from vgpumgr.sim.simulated_fleet import ClientSession


@pytest.fixture
def two() -> Iterator[Two]:
    made = fleet()
    yield made
    made.hosts.close()


class Killed(BaseException):
    """The client is gone."""


def killed_after(monkeypatch: pytest.MonkeyPatch, method: str, times: int = 1) -> None:
    """Its last call is the ``times``-th of that method."""
    left, call = [times], ClientSession.call

    def cut(self: ClientSession, name: str, target: str, called: str, arguments: Any) -> Any:
        answer = call(self, name, target, called, arguments)
        left[0] -= called == method
        if not left[0]:
            raise Killed
        return answer

    monkeypatch.setattr(ClientSession, "call", cut)


@pytest.mark.parametrize(
    ("method", "times", "states"),
    [
        ("begin", 1, (RUNNING, None)),
        ("prepare", 1, (RUNNING, None)),
        ("perform", 1, (RUNNING, None)),
        ("perform", 4, (PAUSED, None)),
        ("finish", 1, (PAUSED, RUNNING)),
        ("confirm", 1, (SHUTOFF, RUNNING)),
    ],
)
def test_a_client_that_dies_leaves_what_libvirt_leaves(
    two: Two, monkeypatch: pytest.MonkeyPatch, method: str, times: int, states: Any
) -> None:
    move = with_vgpu(two)
    killed_after(monkeypatch, method, times)
    with pytest.raises(Killed):
        two.source.domains.migrate(move, two.target)
    assert two.states() == states
    for host in (two.source, two.target):
        assert host.domains.migration_progress("vm") is None
    found = two.target.domains.look("vm")
    assert found is None or found.persistent
    assert (two.held("h1"), two.held("h2")) == (
        {HERE: "vm"} if states[0] is not SHUTOFF else {},
        {THERE: "vm"} if states[1] is RUNNING else {},
    )
    if states[0] is PAUSED:
        two.source.domains.resume("vm")
        assert two.states()[0] is RUNNING


def test_between_phases_both_hosts_show_it_and_the_source_is_locked(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    call = ClientSession.call

    def looking(self: ClientSession, name: str, target: str, method: str, arguments: Any) -> Any:
        answer = call(self, name, target, method, arguments)
        left = two.source.domains.migration_progress("vm")
        seen.append((method, *two.states(), left.left_bytes >> 20 if left else None))
        if method == "perform":
            for act in (two.source.domains.reboot, two.source.domains.shutdown):
                with pytest.raises(HostRefused) as caught:
                    act("vm")
                assert "cannot acquire state change lock" in caught.value.why
            assert two.target.domains.migration_progress("vm") == MoveProgress(
                total_bytes=0, left_bytes=0
            )
        return answer

    move = with_vgpu(two)
    monkeypatch.setattr(ClientSession, "call", looking)
    two.source.domains.migrate(move, two.target)
    assert seen == [
        ("begin", RUNNING, None, 1024),
        ("prepare", RUNNING, PAUSED, 1024),
        ("perform", RUNNING, PAUSED, 768),
        ("perform", RUNNING, PAUSED, 512),
        ("perform", RUNNING, PAUSED, 256),
        ("perform", PAUSED, PAUSED, 0),
        ("finish", PAUSED, RUNNING, 0),
        ("confirm", SHUTOFF, RUNNING, None),
    ]


def on_first(monkeypatch: pytest.MonkeyPatch, method: str, act: Callable[[], None]) -> None:
    call = ClientSession.call

    def acting(self: ClientSession, name: str, target: str, called: str, arguments: Any) -> Any:
        answer = call(self, name, target, called, arguments)
        if called == method:
            monkeypatch.setattr(ClientSession, "call", call)
            act()
        return answer

    monkeypatch.setattr(ClientSession, "call", acting)


def test_a_move_that_is_cancelled_leaves_the_vm(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.source.domains.cancel_migration("vm"))
    refused(two, move, "canceled by client")
    assert two.states() == (RUNNING, None)


def test_a_vm_powered_off_in_the_middle_is_off(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.source.domains.destroy("vm"))
    with pytest.raises(HostRefused):
        two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, None)


def test_a_target_that_loses_power_in_the_middle(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.hosts.fleet.inject("h2", ["reboot"]))
    with pytest.raises(HostRefused):
        two.source.domains.migrate(move, two.target)
    assert two.states() == (RUNNING, None)


def test_a_source_that_loses_power_in_the_middle(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.hosts.fleet.inject("h1", ["reboot"]))
    with pytest.raises(HostRefused):
        two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, None)


@pytest.mark.parametrize(
    ("host", "kind", "states"),
    [("h2", HostRefused, (RUNNING, None)), ("h1", OutcomeUnknown, (RUNNING, None))],
)
def test_a_network_that_breaks_in_the_middle(
    two: Two, monkeypatch: pytest.MonkeyPatch, host: str, kind: type[Exception], states: Any
) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.hosts.fleet.inject(host, ["unreachable"]))
    with pytest.raises(kind):
        two.source.domains.migrate(move, two.target)
    two.hosts.fleet.inject(host, ["clear"])
    assert two.states() == states


@pytest.mark.parametrize("method", ["begin", "prepare", "perform", "finish"])
def test_each_phase_can_be_made_to_fail(two: Two, method: str) -> None:
    move = with_vgpu(two)
    name = "h1" if method in {"begin", "perform"} else "h2"
    two.hosts.fleet.inject(name, ["refuse", f"moves.{method}", "EIO", "1"])
    refused(two, move, "Input/output error")
    two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, RUNNING)

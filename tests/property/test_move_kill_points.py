"""A VM moves, and the process dies at any durable write, or the move in any of its phases.

At every such moment the VM runs on one host at most and is defined on one at least. Afterwards
``resume``, ``undo`` or the same command ends with all of it on one host and nothing on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.movers import (
    BYTES,
    assert_never_twice,
    assert_settled_on,
    desk,
    make,
    running,
    two_hosts,
)
from tests.property.test_engine_kill_points import Killed, Mortal
from tests.world import World
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, VgpumgrError


def live(world: World, ledger: object) -> None:
    world.engine_over(ledger).migrate("desk", "h2")  # type: ignore[arg-type]


def cold(world: World, ledger: object) -> None:
    world.engine_over(ledger).migrate("desk", "h2", cold=True)  # type: ignore[arg-type]


Command = Callable[[World, object], None]
WAYS: dict[str, tuple[Command, bool]] = {
    "live": (live, True),
    "cold": (cold, True),
    "off": (cold, False),
}


def prepared(folder: Path, *, runs: bool) -> World:
    world = two_hosts(folder)
    make(world, desk())
    if not runs:
        world.engine.stop_vms(["desk"], force=True, timeout_s=1.0)
    return world


def watched(world: World) -> World:
    """From now on the hosts are looked at before each of their calls."""
    for host in world.hosts.values():
        host.on_call = lambda _: assert_never_twice(world)
    return world


def killed_at(world: World, command: Command, at: int, *, after: bool) -> bool:
    try:
        command(world, Mortal(world.ledger, at, after=after))
    except Killed:
        world.restart()
        return True
    return False


def resume(world: World, command: Command) -> None:
    for operation in world.ledger.operations(open_only=True):
        world.engine.resume(operation.id).raise_for_failure()


def undo(world: World, command: Command) -> None:
    """What can no longer be undone goes on."""
    for operation in world.ledger.operations(open_only=True):
        world.engine.undo(operation.id)
    resume(world, command)


def same(world: World, command: Command) -> None:
    """Where all but the operation's own end was done, there is nothing left to move."""
    there = world.vm("desk").host == "h2"
    with suppress(Conflict) if there else nullcontext():
        command(world, world.ledger)


def check(world: World, *, runs: bool) -> None:
    where = world.vm("desk").host
    assert_settled_on(world, where, runs=runs)
    contents = {world.hosts[where].uploads.get(name) for _, name in world.vm("desk").volumes}
    if where == "h1" or not runs:
        assert BYTES in contents


ENDS = (resume, undo, same)


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_a_move_killed_anywhere_ends_on_one_host(way: str, turn: int, tmp_path: Path) -> None:
    """Each kill point with one end after the other: over both turns and all ways many pairs."""
    command, runs = WAYS[way]
    shift = list(WAYS).index(way) + turn
    first = prepared(tmp_path / "first", runs=runs)
    for at in count(1):
        world = watched(first.twin(tmp_path / str(at)))
        after, end = bool((at + turn) % 2), ENDS[(at + shift) % 3]
        killed = killed_at(world, command, at, after=after)
        assert_never_twice(world)
        end(world, command)
        check(world, runs=runs)
        if end is same:
            assert world.vm("desk").host == "h2"
        world.close()
        if not killed:
            break
    assert at > 9


@pytest.mark.parametrize("end", [resume, undo])
@pytest.mark.parametrize("at", [3, 6, 8])
def test_a_recovery_killed_anywhere_is_recovered(
    at: int, end: Callable[[World, Command], None], tmp_path: Path
) -> None:
    """Killed while it moves, and killed again while that is taken back or gone on with."""
    first = prepared(tmp_path / "first", runs=True)
    for again in count(1):
        world = watched(first.twin(tmp_path / str(again)))
        killed_at(world, live, at, after=True)
        mortal = Mortal(world.ledger, again, after=bool(again % 2))
        engine = world.engine_over(mortal)  # type: ignore[arg-type]
        killed = False
        try:
            for operation in world.ledger.operations(open_only=True):
                engine.undo(operation.id) if end is undo else engine.resume(operation.id)
        except Killed:
            world.restart()
            killed = True
        assert_never_twice(world)
        end(world, live)
        check(world, runs=True)
        world.close()
        if not killed:
            break


def dies_in(world: World, phase: str) -> None:
    """A live move whose client dies after this phase."""

    def die(now: str) -> None:
        if now == phase:
            raise Killed

    world.hosts["h1"].on_phase = die
    with suppress(Killed):
        live(world, world.ledger)
    world.restart()
    world.hosts["h1"].on_phase = lambda _: None


PHASES = ("begin", "prepare", "perform", "finish")


@pytest.mark.parametrize("end", [resume, undo, same])
@pytest.mark.parametrize("phase", PHASES)
def test_a_move_that_dies_in_any_phase_ends_on_one_host(
    phase: str, end: Callable[[World, Command], None], tmp_path: Path
) -> None:
    """As seen on libvirt: a paused source by itself tells nothing."""
    world = watched(prepared(tmp_path, runs=True))
    dies_in(world, phase)
    if phase in {"prepare", "perform"}:  # its daemon kills a receiver whose client is gone
        world.hosts["h2"].domains_by_name.pop("desk")
    assert_never_twice(world)
    end(world, live)
    moved = phase == "finish" or end is not undo
    assert_settled_on(world, "h2" if moved else "h1")
    world.close()


@pytest.mark.parametrize("silent", ["h1", "h2"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_host_that_is_silent_stops_the_recovery(phase: str, silent: str, tmp_path: Path) -> None:
    world = watched(prepared(tmp_path, runs=True))
    dies_in(world, phase)
    before = [host.left() for host in world.hosts.values()]
    world.hosts[silent].down = True
    [operation] = world.ledger.operations(open_only=True)
    for way in (world.engine.resume, world.engine.undo):
        with suppress(VgpumgrError):
            way(operation.id)
        assert [host.left() for host in world.hosts.values()] == before
    assert len(world.ledger.allocations()) == 2
    world.hosts[silent].down = False
    if phase == "perform":
        world.hosts["h2"].domains_by_name.pop("desk")
    resume(world, live)
    assert_settled_on(world, "h2")
    world.close()


def test_a_paused_receiver_that_is_kept_is_left_alone(tmp_path: Path) -> None:
    """It is about to run: nobody may wake the source, and nobody may end the receiver."""
    world = watched(prepared(tmp_path, runs=True))
    dies_in(world, "perform")
    h2 = world.hosts["h2"]
    h2.domains_by_name["desk"] = replace(h2.domains_by_name["desk"], persistent=True)
    [operation] = world.ledger.operations(open_only=True)
    for way in (world.engine.resume, world.engine.undo):
        outcome = way(operation.id)
        assert outcome.vms[0].error is not None
        assert running(world) == []
        assert h2.domains_by_name["desk"].state is DomainState.PAUSED
    world.close()

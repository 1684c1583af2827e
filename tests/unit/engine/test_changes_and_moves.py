"""A change that was cut, and a move that was cut after it: whichever is gone on with first.

Found by the soak: an old change defined its VM anew on the host that a move had just emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.movers import defined, running
from tests.property.test_engine_kill_points import Killed, Mortal
from tests.unit.engine.test_overtaken_changes import CHANGED, cut_change, worlds
from tests.world import World
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.vm import VmState

pytestmark = pytest.mark.thorough

CUT_CHANGE_AT = 4


def cut_move(world: World, at: int) -> bool:
    """Begin a move to h2, and die at its n-th write; False when it has fewer."""
    mortal = Mortal(world.ledger, at, after=False)
    try:
        world.engine_over(mortal).migrate("desk", "h2", cold=True)  # type: ignore[arg-type]
    except Killed:
        world.restart()
        return True
    return False


def both_cut(folder: Path) -> Iterator[World]:
    """A change that was cut, then a move that was cut at each of its writes but the first."""
    for at in count(2):
        world = worlds(folder / str(at))
        assert cut_change(world, CUT_CHANGE_AT)
        killed = cut_move(world, at)
        yield world
        world.close()
        if not killed:
            break
    assert at > 8


@pytest.mark.parametrize("ends", ["resume", "undo"])
def test_an_old_change_does_nothing_while_its_vm_moves(tmp_path: Path, ends: str) -> None:
    for world in both_cut(tmp_path):
        if world.vm("desk").state is not VmState.MIGRATING:
            continue
        move, change = world.ledger.operations(open_only=True)
        before = (defined(world), running(world), world.hosts["h1"].left())
        world.engine.resume(change.id)
        assert (defined(world), running(world), world.hosts["h1"].left()) == before
        try:
            getattr(world.engine, ends)(move.id).raise_for_failure()
        except VgpumgrError:
            if world.ledger.operation(move.id).ended_at is None:  # it had arrived
                world.engine.resume(move.id).raise_for_failure()
        assert defined(world) == [world.vm("desk").host]
        assert world.settled()


class Meanwhile(Mortal):
    """A ledger that has something else happen after its n-th durable write."""

    def __init__(self, ledger: object, at: int, happens: Callable[[], None]) -> None:
        super().__init__(ledger, at, after=True)
        self._happens = happens

    def _write(self, write: Callable[[], None]) -> None:
        try:
            super()._write(write)
        except Killed:
            self._happens()


OTHERS: dict[str, Callable[[Engine], object]] = {
    "migrate": lambda engine: engine.migrate("desk", "h2", cold=True),
    "stop": lambda engine: engine.stop_vms(["desk"], force=True, timeout_s=1),
    "delete": lambda engine: engine.delete(["desk"], keep_disks=False, force=True),
}


@pytest.mark.parametrize("verb", OTHERS)
def test_nothing_is_done_to_a_vm_that_another_process_works_on(tmp_path: Path, verb: str) -> None:
    world = worlds(tmp_path)
    other = world.engine_over(world.open())
    refused = []

    def meanwhile() -> None:
        with pytest.raises(Conflict, match="is running"):
            OTHERS[verb](other)
        refused.append(verb)

    ledger = Meanwhile(world.ledger, CUT_CHANGE_AT, meanwhile)
    world.engine_over(ledger).apply([CHANGED], restart=True)[1].raise_for_failure()  # type: ignore[arg-type]
    assert refused == [verb]
    assert (defined(world), running(world)) == (["h1"], ["h1"])
    assert world.settled()

"""The engine's process dies at any durable write of an adoption or of a healing.

Afterwards the same command, ``resume`` or ``undo`` ends it; what was adopted was never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.unit.engine.foreign import L40S, MDEV, T4, Hands, domain, hands
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm import VmState

Command = Callable[[Engine], object]


def adopt(engine: Engine) -> None:
    """As the user types it again, whatever is left of the first time."""
    engine.adopt("h1", ["desk"]).raise_for_failure()


def heal(engine: Engine) -> None:
    healed = engine.heal(DriftSelection())
    healed.outcome.raise_for_failure()
    assert not healed.errors


def killed(made: Hands, command: Command, at: int, *, after: bool) -> bool:
    """Die at the n-th durable write of a command; False when it had fewer."""
    mortal = Mortal(made.world.ledger, at, after=after)
    try:
        command(replace(made.world.engine, ledger=mortal))  # type: ignore[arg-type]
    except Killed:
        made.world.restart()
        return True
    return False


def again(made: Hands, command: Command) -> None:
    command(made.world.engine)


def resume(made: Hands, _: Command) -> None:
    for operation in made.world.ledger.operations(open_only=True):
        made.world.engine.resume(operation.id).raise_for_failure()


def undo(made: Hands, _: Command) -> None:
    for operation in made.world.ledger.operations(open_only=True):
        made.world.engine.undo(operation.id)


ENDS = (again, resume, undo)


def assert_ours(made: Hands) -> None:
    """Ledger and host agree on every part, and nothing waits."""
    claims = {each.allocation for each in made.world.facts().claims}
    assert claims == {each.id for each in made.world.ledger.allocations()}
    assert not made.world.ledger.operations(open_only=True)
    drifts = made.world.engine.drift().drifts
    foreign = bool(made.world.engine.adoptable().candidates)
    assert {each.kind for each in drifts} <= ({"foreign"} if foreign else set())


def two_parts(made: Hands) -> None:
    made.run(domain("desk", made.mdev("T4-8Q"), made.bound(made.world.gpu(1).device)))


def one_vf(made: Hands) -> None:
    made.run(domain("desk", made.vgpu(1155)))


ADOPTED: dict[str, tuple[SimHost, GpuLayout | None, Callable[[Hands], None]]] = {
    "an mdev and a whole GPU": (T4, None, two_parts),
    "a VF": (L40S, GpuLayout(vfs=VFS_MAX), one_vf),
}


@pytest.mark.parametrize("name", ADOPTED)
def test_an_adoption_killed_anywhere_ends_or_is_taken_back(name: str, tmp_path: Path) -> None:
    """Each kill point with one end after the other: over both ways nearly every pair is seen."""
    where, layout, make = ADOPTED[name]
    turn = list(ADOPTED).index(name)
    for at in count(1):
        end = ENDS[(at + turn) % 3]
        folder = tmp_path / str(at)
        folder.mkdir()
        with hands(folder, where, layout) as made:
            make(made)
            before = made.shown()
            died = killed(made, adopt, at, after=bool((at + turn) % 2))
            end(made, adopt)
            assert_ours(made)
            if end is undo and not made.world.ledger.vms():
                assert made.shown() == before, f"killed at write {at}"
            adopt(made.world.engine)
            assert_ours(made)
            assert [vm.state for vm in made.world.ledger.vms()] == [VmState.ACTIVE]
            assert made.host.domains.list()[0].state == "running"
        if not died:
            break
    assert at > 4


def broken(made: Hands) -> None:
    """Off, its mdev gone with its claim, and the definition changed."""
    adopt(made.world.engine)
    made.host.domains.destroy("desk")
    made.root.wait(10)
    made.root.write(f"/sys/bus/mdev/devices/{MDEV}/remove", "1")
    made.root.simulated.kernel.remove(f"/var/lib/vgpumgr/claims/mdev-{MDEV}.json")
    made.host.domains.set_autostart("desk", on=True)
    made.host.domains.set_ownership("desk", None)
    made.host.domains.undefine("desk")


def test_a_healing_killed_anywhere_is_ended_by_healing(tmp_path: Path) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        with hands(folder, T4) as made:
            made.run(domain("desk", made.mdev("T4-8Q")))
            broken(made)
            died = killed(made, heal, at, after=bool(at % 2))
            (again if at % 3 else resume)(made, heal)
            again(made, heal)
            assert_ours(made)
            assert made.host.domains.list()[0].state == "running"
            assert [each.uuid for each in made.world.facts().mdevs] == [MDEV]
        if not died:
            break
    assert at > 5

"""The process dies at any durable write of ``host add`` and ``host remove``.

Whatever ends it, the host is in the fleet with helper and mark, or out of it with neither, and what
it keeps for its boots with it; nobody else's helper is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord, Installed, Membership
from vgpumgr.model.layout import VFS_MAX, GpuLayout

H2 = HostRecord(name="h2", address="sim://h2", labels={"rack": "7"})
IN, OUT = True, False


class Fleet:
    """h1 enrolled, h2 there to be; whether h2 is in, and what it knows of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.world = SimWorld(folder, host("T4"), host("L40S", name="h2"))
        self.world.ledger.remove_host("h2")
        self.h2 = self.world.hosts.open(H2)

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def enrolled(self) -> Fleet:
        """With a layout that the host keeps."""
        add(self.engine)
        self.engine.refresh()
        self.world.cut(GpuLayout(vfs=VFS_MAX), "h2")
        return self

    def killed(self, command: Command, at: int, *, after: bool) -> bool:
        mortal = Mortal(self.world.ledger, at, after=after)
        try:
            command(replace(self.engine, ledger=mortal))  # type: ignore[arg-type]
        except Killed:
            self.world.restart()
            return True
        return False

    def installed(self) -> Installed:
        return self.h2.installation.look()

    def is_in(self) -> bool:
        """In or out, and not half of it."""
        ledger, found = self.world.ledger, self.installed()
        assert not ledger.operations(open_only=True)
        known = [each for each in ledger.hosts() if each.name == "h2"]
        assert [each.membership for each in known] in ([], [Membership.MEMBER])
        assert found.helper is bool(known)
        assert found.fleets == ((ledger.fleet_id(),) if known else ())
        return bool(known)

    def layouts_kept(self) -> int:
        return len(self.h2.probe().claims)

    def close(self) -> None:
        self.world.close()


Command = Callable[[Engine], object]


def add(engine: Engine) -> None:
    engine.enrol(H2, install=True).raise_for_failure()


def remove(engine: Engine) -> None:
    engine.remove_host("h2").outcome.raise_for_failure()


def same(fleet: Fleet, command: Command) -> None:
    """Typed again; who has done it already is told so."""
    try:
        command(fleet.engine)
    except Conflict as refused:
        assert "enrolled already" in refused.message


def resume(fleet: Fleet, _: Command) -> None:
    for operation in fleet.world.ledger.operations(open_only=True):
        fleet.engine.resume(operation.id).raise_for_failure()


def undo(fleet: Fleet, command: Command) -> None:
    """What has left the fleet already only goes forward."""
    for operation in fleet.world.ledger.operations(open_only=True):
        fleet.engine.undo(operation.id)
    resume(fleet, command)


def serve(fleet: Fleet, _: Command) -> None:
    clock = fleet.engine.clock
    controller = Controller(
        fleet.engine, SerialCycleRunner(clock), ProbePauses(30.0), emit=lambda _event: None
    )
    controller.once()


ENDS = (same, resume, undo, serve)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("command", "before"), [(add, OUT), (remove, IN)], ids=["add", "remove"])
def test_a_host_is_in_or_out_whatever_dies(
    command: Command, before: bool, after: bool, tmp_path: Path
) -> None:
    """Each kill point with one end after the other, and once with undo."""
    seen = set()
    for at in count(1):
        for end in {ENDS[at % 4], undo} if after else {ENDS[at % 4]}:
            fleet = Fleet(tmp_path / f"{at}-{end.__name__}")
            if before is IN:
                fleet.enrolled()
            kept = fleet.layouts_kept()
            killed = fleet.killed(command, at, after=after)
            half = bool(fleet.world.ledger.operations(open_only=True))
            end(fleet, command)
            now = fleet.is_in()
            if not killed or end is same or (half and end is not undo):
                assert now is not before, f"killed at write {at}, then {end.__name__}"
            assert fleet.layouts_kept() == (kept if now else 0)
            seen.add((end, now))
            fleet.close()
        if not killed:
            break
    assert at > 5
    assert not after or {(undo, IN), (undo, OUT)} <= seen

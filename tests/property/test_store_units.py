"""Whatever is reserved, activated and released: a unit has one owner, and none is lost."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from tests.pgserver import PgServer
from tests.unit.store.values import SLOTS, allocation, board, fleet, see, start, vm
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.operation import TaskMoved, TaskRecord, TaskState
from vgpumgr.model.vm import VmState
from vgpumgr.store import open_ledger
from vgpumgr.store.schema import unit

GPUS = 2
VFS = 4


class Units(RuleBasedStateMachine):
    """A model of who holds what, beside the ledger."""

    def __init__(self, url: str = "") -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.url = url or str(Path(self.folder.name) / "l")
        self.ledger = fleet(self.url, gpus=GPUS)
        self.held: dict[str, set[tuple[str, str, int]]] = {}
        self.open: dict[str, TaskRecord] = {}

    def free(self) -> set[tuple[str, str, int]]:
        every = {
            (gpu.id, kind, number)
            for gpu in self.ledger.gpus()
            for kind, count in (("memory", SLOTS), ("vf", VFS))
            for number in range(count)
        }
        return every.difference(*self.held.values())

    @rule(
        name=st.sampled_from("abcdef"),
        wanted=st.sets(
            st.tuples(st.integers(0, GPUS - 1), st.integers(0, SLOTS)), min_size=1, max_size=6
        ),
        vf=st.none() | st.integers(0, VFS - 1),
        stale=st.booleans(),
    )
    def reserve(self, name: str, wanted: set[tuple[int, int]], vf: int | None, stale: bool) -> None:
        """Slots of one or both GPUs, and of each the same VF or none."""
        gpus = self.ledger.gpus()
        desk = vm(name)
        parts = {
            number: sorted(slot for other, slot in wanted if other == number)
            for number, _ in wanted
        }
        made = start(
            *(
                replace(allocation(desk, gpus[number], slots), vf=vf)
                for number, slots in parts.items()
            ),
            vms=[desk],
            gpu_generations={
                gpus[number].id: gpus[number].generation - (1 if stale else 0) for number in parts
            },
        )
        units = {(gpus[number].id, "memory", slot) for number, slot in wanted}
        if vf is not None:
            units |= {(gpus[number].id, "vf", vf) for number in parts}
        fits = units <= self.free() and not stale and name not in self.held
        try:
            self.ledger.reserve(made)
        except (StaleGeneration, Conflict):
            assert not fits
        else:
            assert fits
            self.held[name] = units
            self.open[name] = made.tasks[0]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        task = self.open.pop(name)
        self.ledger.record(
            TaskMoved(task=task.id, state=TaskState.RUNNING),
            TaskMoved(
                task=task.id,
                state=TaskState.DONE,
                vm_id=task.vm_id,
                vm_state=VmState.ACTIVE,
                allocations=AllocationState.ACTIVE,
            ),
        )

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        task = self.open.pop(name)
        self.ledger.record(
            TaskMoved(task=task.id, state=TaskState.UNDOING),
            TaskMoved(
                task=task.id,
                state=TaskState.UNDONE,
                vm_id=task.vm_id,
                vm_state=VmState.DELETED,
                allocations=AllocationState.RELEASED,
            ),
        )
        del self.held[name]

    @rule(shown=st.sets(st.integers(1, GPUS), min_size=1))
    def observe(self, shown: set[int]) -> None:
        """A GPU that is gone for a while frees nothing."""
        see(self.ledger, "h1", *(board("h1", number) for number in sorted(shown)))

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = open_ledger(self.url)

    @invariant()
    def every_unit_has_the_owner_it_was_given_to(self) -> None:
        names = {each.id: each.vm for each in self.ledger.allocations()}
        with self.ledger._database.read() as connection:
            rows = connection.execute(select(unit)).all()
        owned: dict[str, set[tuple[str, str, int]]] = {}
        for row in rows:
            owned.setdefault(names[row.allocation_id], set()).add((row.gpu_id, row.kind, row.slot))
        assert owned == self.held
        held = self.ledger.allocations()
        listed = sum(len(each.slots) + (each.vf is not None) for each in held)
        every = GPUS * (SLOTS + VFS)
        assert len(self.free()) == every - len(rows) == every - listed
        assert {each.name for each in self.ledger.vms()} == set(self.held)

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()


Units.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestUnits = Units.TestCase


def test_units_on_a_server(pg: PgServer) -> None:
    fewer = settings(Units.TestCase.settings, max_examples=5, stateful_step_count=15)
    run_state_machine_as_test(lambda: Units(pg.database()), settings=fewer)

"""Several processes on one ledger: one wins a slot, and a killed one loses nothing."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

from tests.unit.store.values import allocation, fleet, start, task, vm
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.operation import Reservation, StepState
from vgpumgr.store import open_ledger
from vgpumgr.store.admin import maintenance

pytestmark = pytest.mark.thorough

SPAWN = multiprocessing.get_context("spawn")
ROUNDS = 50


def racer(url: str, control: Connection) -> None:
    """Reserve what is sent, at once, and say whether it was won."""
    ledger = open_ledger(url)
    control.send("ready")
    while (reservation := control.recv()) is not None:
        try:
            ledger.reserve(reservation)
            control.send("won")
        except StaleGeneration:
            control.send("lost")
    ledger.close()


@pytest.mark.parametrize("with_generations", [True, False])
def test_of_two_processes_racing_for_the_last_slot_one_wins(
    url: str, with_generations: bool
) -> None:
    """Whether generations are compared or the unit's own row has to referee."""
    ledger = fleet(url, [f"h{n:02}" for n in range(ROUNDS)])
    gpus = ledger.gpus()
    pipes, workers = [], []
    for _ in range(2):
        ours, theirs = SPAWN.Pipe()
        worker = SPAWN.Process(target=racer, args=(url, theirs))
        worker.start()
        pipes.append(ours)
        workers.append((worker, theirs))
    assert [pipe.poll(60) and pipe.recv() for pipe in pipes] == ["ready", "ready"]
    for number, gpu in enumerate(gpus):
        read = {gpu.id: gpu.generation} if with_generations else {}
        for side, pipe in enumerate(pipes):
            desk = vm(f"vm-{number}-{side}", gpu.host)
            pipe.send(start(allocation(desk, gpu, [7]), vms=[desk], gpu_generations=read))
        assert all(pipe.poll(60) for pipe in pipes)
        assert sorted(pipe.recv() for pipe in pipes) == ["lost", "won"]
    for pipe, (worker, theirs) in zip(pipes, workers, strict=True):
        pipe.send(None)
        worker.join(60)
        worker.close()
        pipe.close()
        theirs.close()
    assert len(ledger.vms()) == len(ledger.allocations()) == ROUNDS
    ledger.close()


WRITER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from vgpumgr.model.operation import StepMoved, StepState
from vgpumgr.store import open_ledger

ledger = open_ledger(sys.argv[1])
tasks = ledger.tasks("op")

def lane(task):
    for step in task.steps:
        for state in (StepState.INTENT, StepState.DONE):
            ledger.record(StepMoved(task=task.id, seq=step.seq, state=state))
            sys.stdout.write(f"{task.id} {step.seq} {state}\\n")
            sys.stdout.flush()

with ThreadPoolExecutor(len(tasks)) as pool:
    list(pool.map(lane, tasks))
"""


@pytest.mark.parametrize("after_lines", [1, 60, 333])
def test_whatever_record_returned_from_is_there_after_kill_9(url: str, after_lines: int) -> None:
    ledger = fleet(url)
    vms = [vm(f"v{number}") for number in range(8)]
    made = start(vms=vms)
    operation = made.operation
    tasks = tuple(task(each, "op", steps=400) for each in vms)
    ledger.reserve(
        Reservation(
            operation=type(operation)(
                id="op", kind="apply", state=operation.state, epoch=1, started_at=1.0
            ),
            vms=made.vms,
            tasks=tasks,
        )
    )
    ledger.close()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(after_lines)]
        writer.kill()
        said += writer.stdout.read().splitlines(keepends=True)
    again = open_ledger(url)
    order = list(StepState)
    found = {
        (one.id, str(step.seq)): order.index(step.state)
        for one in again.tasks("op")
        for step in one.steps
    }
    for line in said:
        if not line.endswith("\n"):
            continue  # cut by the kill: it was not said
        id_, seq, state = line.split()
        assert found[id_, seq] >= order.index(StepState(state))
    assert StepState.PLANNED in {step.state for step in again.tasks("op")[0].steps}
    again.close()
    assert [
        each.what for each in maintenance.check(url).problems if "not finished" not in each.what
    ] == []

"""The same race by whole commands: every client gives ``vm apply``, the winner ``vm delete``."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

from tests.race import ground
from tests.race.clients import PATIENCE_S, WON, Gate, Seen, failing_together
from tests.race.rounds import Report, summed
from vgpumgr.engine.engine import Engine
from vgpumgr.model.errors import VgpumgrError


def applies(url: str, *, processes: int, threads: int, rounds: int) -> Report:
    """So many rounds, each client with an engine and a ledger of its own."""
    ground.prepare(url)
    context = multiprocessing.get_context("spawn")
    began = time.monotonic()
    with context.Manager() as manager, context.Pool(processes) as pool:
        gate = manager.Barrier(processes)
        jobs = [(url, number, processes, threads, rounds, gate) for number in range(processes)]
        seen = pool.starmap(_contend, jobs)
    report = summed(seen)
    return {
        "clients": processes * threads,
        "rounds": rounds,
        "seconds": round(time.monotonic() - began, 1),
        **report,
    }


def _contend(url: str, number: int, processes: int, threads: int, rounds: int, gate: Gate) -> Seen:
    seen = Seen()
    with failing_together(gate), ThreadPoolExecutor(threads) as pool:
        engines = [ground.engine(url) for _ in range(threads)]
        template = ground.planned(engines[0])
        for turn in range(rounds):
            names = [f"vm-{turn}-{number}-{each}" for each in range(threads)]
            gate.wait(PATIENCE_S)
            ended = list(pool.map(_apply, engines, names))
            gate.wait(PATIENCE_S)
            won = [name for name, (answer, _) in zip(names, ended, strict=True) if answer == WON]
            seen.wins.append(len(won))
            seen.answers.update(answer for answer, _ in ended)
            seen.seconds += [seconds for _, seconds in ended]
            if turn % processes == number:
                seen.doubles += len(ground.owners(engines[0].ledger, template)) > 1
            gate.wait(PATIENCE_S)
            for name in won:
                winner = engines[names.index(name)]
                winner.delete([name], keep_disks=False, force=True).raise_for_failure()
            gate.wait(PATIENCE_S)
        for each in engines:
            each.ledger.close()
    return seen


def _apply(client: Engine, name: str) -> tuple[str, float]:
    began = time.perf_counter()
    try:
        client.apply([ground.wanted(name)])[1].raise_for_failure()
        answer = WON
    except VgpumgrError as error:
        assert error.message and (error.why or error.next), repr(error)
        answer = error.code
    return answer, time.perf_counter() - began

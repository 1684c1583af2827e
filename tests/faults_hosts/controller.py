"""The controller under test, as a process that may be killed: one operator per host, at work.

``python -m tests.faults_hosts.controller ORDER.json``. It first goes on with what an earlier one
left. Then each operator creates, stops, starts and deletes the VMs of one host, one after the
other; what does not end well is given again, as a user would, until it does. What happens is
written to a log, a line of JSON each. On standard input: ``think SECONDS`` (the mean pause between
two commands), ``hurry HOST`` (its operator thinks no longer), ``pause`` (answered when all have
come to rest), ``go`` (all begin at once), ``stroll`` (each when it has thought), ``clear`` (all
delete what they have, and come to rest), ``plan WHEN`` (a plan for a VM that may go to any host).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.faults_hosts.operators import AGAIN_S, Log, Operator, Pace, told
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.codec import from_plain
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import VmSpec

RESUMERS = 8


def go_on(engine: Engine, log: Log) -> None:
    """Finish what was left open, side by side, each until it has ended."""

    def finish(operation: str) -> None:
        log.say("resume", operation=operation)
        while (error := _resumed(engine, log, operation)) is not None:
            log.say("not resumed", operation=operation, error=error)
            time.sleep(AGAIN_S)
        log.say("resumed", operation=operation, state=engine.ledger.operation(operation).state)

    left = [each.id for each in engine.ledger.operations(open_only=True)]
    with ThreadPoolExecutor(RESUMERS) as pool:
        list(pool.map(finish, left))


def _resumed(engine: Engine, log: Log, operation: str) -> str | None:
    try:
        engine.resume(operation)
        open_ = {each.id for each in engine.ledger.operations(open_only=True)}
    except Exception as error:
        return told(error, log)
    return "still open" if operation in open_ else None


def main() -> None:
    """Enrol what is not enrolled, go on with what was left, work."""
    order = json.loads(Path(sys.argv[1]).read_text())
    log = Log(order["log"])
    config = Config(
        ledger=order["ledger"],
        state_dir=Path(order["state_dir"]),
        ssh_config=Path(order["ssh_config"]),
        connect_timeout_s=order["connect_s"],
        call_timeout_s=order["call_s"],
    )
    engine = App(config).engine
    _enrol(engine, order)
    log.say("up", life=order["life"])
    go_on(engine, log)
    log.say("at work", life=order["life"])
    pace = Pace(order["think_s"])
    for host in order["hosts"]:
        operator = Operator(engine, log, pace, host, order)
        threading.Thread(target=operator.work, daemon=True).start()
    print("ready", flush=True)
    _obey(engine, log, pace, len(order["hosts"]))
    os._exit(0)  # as abrupt as its other ends


def _enrol(engine: Engine, order: dict[str, Any]) -> None:
    known = {host.name for host in engine.ledger.hosts()}
    fresh = [from_plain(HostRecord, each) for each in order["records"] if each["name"] not in known]
    for record in fresh:
        engine.ledger.add_host(record)
    if fresh:
        engine.refresh([record.name for record in fresh])


def _plan(engine: Engine, log: Log, when: str) -> None:
    """How long a plan takes that asks every host."""
    begin = time.monotonic()
    engine.plan([VmSpec(name="anywhere", vcpus=1, memory_mib=32)])
    log.say("planned", when=when, seconds=time.monotonic() - begin)


def _obey(engine: Engine, log: Log, pace: Pace, operators: int) -> None:
    for line in sys.stdin:
        word, _, value = line.strip().partition(" ")
        if word == "think":
            pace.think_s = float(value)
        elif word == "plan":
            _plan(engine, log, value)
        elif word == "hurry":
            pace.hurry(value)
        elif word == "pause":
            pace.pause(operators)
        elif word == "go":
            pace.go()
        elif word == "stroll":
            pace.go(at_once=False)
        elif word == "clear":
            pace.clearing = True
            pace.go()
            pace.pause(operators)
        print(word, flush=True)


if __name__ == "__main__":
    main()

"""The API killed at random moments under load, again and again: nothing is lost or done twice.

``python -m tests.api.kills [--kills 60] [--minutes 20] [--seed 1]``: two API processes and `serve`
on one ledger; clients stop and start VMs, and come again under their keys until they are answered;
a listener at each server comes again with its last id. Killed are a server, a server with its
workers, a worker, or `serve`, at random.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.api.bench import fleet, opened, report, say, vm_names, whole_trail
from tests.api.listener import EventListener
from tests.apiserver import Answer, ApiServer, serving_api
from tests.e2e.support import Cli, finish
from vgpumgr.model.history import AuditRecord
from vgpumgr.store.sql_ledger import SqlLedger

VMS, CLIENTS = 16, 4
LONGEST_PAUSE_S = 1.5
END_S = 180.0
VICTIMS = ("server", "server", "server", "server with workers", "worker", "worker", "serve")


@dataclass(slots=True)
class Accepted:
    """What clients were told of; ``operations`` by key. Safe to share between threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    operations: dict[str, str] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def hear(self, key: str, answer: Answer) -> bool:
        """An answer; is it one that may be tried again under its key?"""
        with self.lock:
            self.statuses[str(answer.status)] += 1
            if answer.status < 300:
                operation = answer.body.get("operation") or answer.body["name"]
                if self.operations.setdefault(key, operation) != operation:
                    self.wrong.append(f"{key}: {self.operations[key]}, and then {operation}")
            elif not answer.body.get("code"):
                self.wrong.append(f"{key}: {answer}")
        return answer.status >= 300 and not self.ended.is_set()


def work(servers: list[ApiServer], number: int, accepted: Accepted, seed: int) -> None:
    """Stop and start VMs that are this client's alone, until it is told to end."""
    chance, turn = random.Random(seed * 100 + number), 0
    own = vm_names(VMS)[number::CLIENTS]
    while not accepted.ended.is_set():
        turn += 1
        key, name = f"c{number}-{turn}", chance.choice(own)
        verb = chance.choice(["stop", "start"])
        body = {"names": [name], **({"force": True} if verb == "stop" else {})}
        wait = chance.choice(["", "?wait=5s"])
        again = True
        while again:
            try:
                answer = chance.choice(servers).ask(
                    "POST", f"/v1/vms:{verb}{wait}", body, {"Idempotency-Key": key}
                )
                again = accepted.hear(key, answer)
                if answer.status in {404, 409, 422}:
                    break  # refused, or in doubt: another request
            except (OSError, HTTPException, ValueError):
                pass
            time.sleep(0.05)


class Killer:
    """Kills at random, and starts what it killed again."""

    def __init__(self, cli: Cli, servers: list[ApiServer], seed: int) -> None:
        self.killed: Counter[str] = Counter()
        self.serve = cli.process("serve", "--interval", "2", stderr=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL)  # fmt: skip
        self._cli = cli
        self._servers = servers
        self._chance = random.Random(seed)

    def kill(self) -> None:
        """One of them, after a while."""
        time.sleep(self._chance.random() * LONGEST_PAUSE_S)
        victim, server = self._chance.choice(VICTIMS), self._chance.choice(self._servers)
        self.killed[victim] += 1
        if victim == "serve":
            self.serve.kill()
            self.serve.wait()
            self._start_serve()
            return
        workers = children(server.process.pid)
        if victim == "worker":
            kill(self._chance.sample(workers, min(1, len(workers))))
            return
        server.process.kill()
        if victim == "server with workers":
            kill(workers)
        finish(server.process)
        server.start()

    def _start_serve(self) -> None:
        self.serve = self._cli.process("serve", "--interval", "2", stderr=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)  # fmt: skip

    def close(self) -> None:
        """End `serve`."""
        if self.serve.poll() is None:
            self.serve.send_signal(signal.SIGTERM)
            finish(self.serve)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    found: list[int] = []
    for each in tasks:
        with suppress(OSError):
            found += map(int, each.read_text().split())
    return found


def kill(pids: list[int]) -> None:
    """SIGKILL for each that is still there."""
    for each in pids:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


@contextmanager
def working(servers: list[ApiServer], seed: int) -> Iterator[Accepted]:
    """Clients at work while the block lasts."""
    accepted = Accepted()
    clients = [
        threading.Thread(target=work, args=(servers, number, accepted, seed))
        for number in range(CLIENTS)
    ]
    for each in clients:
        each.start()
    try:
        yield accepted
    finally:
        accepted.ended.set()
        for each in clients:
            each.join()


def all_ended(cli: Cli, ledger: SqlLedger) -> list[str]:
    """Wait for `serve`, then resume by hand; what is open nevertheless."""
    until = time.monotonic() + END_S
    while (left := ledger.operations(open_only=True)) and time.monotonic() < until:
        time.sleep(0.5)
        if time.monotonic() > until - END_S / 2:
            for each in left:
                cli("operation", "resume", each.id)
    return [f"operation {each.id} does not end" for each in ledger.operations(open_only=True)]


def judge(ledger: SqlLedger, accepted: Accepted, trail: list[AuditRecord]) -> list[str]:
    """What was accepted, against the ledger."""
    wrong = []
    known = {each.id: each for each in ledger.operations()}
    for key, operation in accepted.operations.items():
        found = ledger.request_of(operation)
        if operation not in known:
            wrong.append(f"{key}: operation {operation} is lost")
        elif found is None or found.key != key:
            vms = [each.vm for each in ledger.tasks(operation)]
            user = found.user if found else ""
            wrong.append(
                f"{key}: operation {operation} on {vms} is under {found}; under the key is "
                f"{ledger.api_request(user, key)}"
            )
    begun = Counter(each.operation for each in trail if each.event == "operation.begun")
    wrong += [f"operation {each} begun {n} times" for each, n in begun.items() if n > 1]
    return wrong + started_twice(trail)


def started_twice(trail: list[AuditRecord]) -> list[str]:
    """VMs that were started within one operation more than once."""
    started = Counter((r.operation, r.vm) for r in trail if r.event == "vm.started")
    return [f"{vm} started {n} times by {operation}" for (operation, vm), n in started.items()
            if n > 1]  # fmt: skip


def compare(name: str, listener: EventListener, trail: list[AuditRecord]) -> list[str]:
    """What a listener heard, against the trail."""
    wanted = [(each.seq, each.event) for each in trail]
    heard = [(seq, record["event"]) for seq, record in listener.heard]
    if heard == wanted:
        return []
    missing, twice = set(wanted) - set(heard), len(heard) - len(set(heard))
    return [f"{name}: {len(missing)} of {len(wanted)} records missing, {twice} twice, or no order"]


def trial(asked: argparse.Namespace) -> dict[str, Any]:
    """Kill, and look at what is left."""
    began = time.monotonic()
    with (
        fleet(VMS) as cli,
        opened(cli) as ledger,
        serving_api(cli, name="a") as a,
        serving_api(cli, name="b") as b,
    ):
        listeners = {"a": EventListener(a, 0), "b": EventListener(b, 0)}
        killer = Killer(cli, [a, b], asked.seed)
        try:
            with working([a, b], asked.seed) as accepted:
                for number in range(asked.kills):
                    if time.monotonic() - began > asked.minutes * 60:
                        break
                    killer.kill()
                    if number % 20 == 19:
                        say(f"{number + 1} kills, {len(accepted.operations)} operations accepted")
            open_ones = all_ended(cli, ledger)
        finally:
            killer.close()
        trail = whole_trail(ledger)
        wrong = [*accepted.wrong, *open_ones, *judge(ledger, accepted, trail)]
        for name, listener in listeners.items():
            listener.reach(trail[-1].seq, 30)
            listener.end()
            wrong += compare(name, listener, trail)
        return {
            "kills": dict(killer.killed),
            "accepted": len(accepted.operations),
            "answers": dict(sorted(accepted.statuses.items())),
            "records": len(trail),
            "streams": {name: each.connections for name, each in listeners.items()},
            "seconds": round(time.monotonic() - began, 1),
            "wrong": wrong[:20],
        }


def main() -> int:
    """Exit status 1 where anything was lost, or done twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=120.0, help="no kill after them")
    parser.add_argument("--seed", type=int, default=1)
    return report(trial, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

"""One ledger under test on a fleet of hosts: quiet and hung windows, faults, killed controllers."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.checker import operations
from tests.checker.check import check
from tests.checker.seen import Seen
from tests.faults_hosts import world
from tests.faults_hosts.controlled import Controller
from tests.faults_hosts.faults import FAULTS, HUNG, Fault, Heal
from tests.faults_hosts.fleet import Fleet
from tests.faults_hosts.record import CONTROLLER, STORE, Injected, Record
from tests.pgserver import PgServer

AT_ONCE = 0.1
"""Of the hosts: how many have a fault, or hang, at the same time."""
# Until all operators have come to rest, and per host, because hosts share the machine's cores.
CONVERGED_S = (60.0, 4.0)
# What a command takes: a fault comes within it.
COMMAND_S = 1.2
# After all operators began at once, the controller is killed; per host, because they share cores.
BURST_S = (0.5, 0.3)
# After all operators began at once, something is done to the store.
STORE_S = (0.5, 5.0)
STORE_PAUSES = (1.0, 10.0)
KINDS = (*(each.name for each in FAULTS), HUNG.name, CONTROLLER, STORE, "postgres-pause")


class Trial:
    """``only`` names one kind of fault; empty means all of them. Times are seconds."""

    def __init__(self, fleet: Fleet, ledger: str, seed: int, only: str, think_s: float) -> None:
        self.fleet = fleet
        self.record = Record()
        self._random = random.Random(seed)
        self._only = only
        self._ledger = ledger
        self.controller = Controller(
            fleet, ledger, seed=seed, think_s=think_s, vms=2, connect_s=10.0, call_s=30.0
        )

    def wants(self, kind: str) -> bool:
        """Is this kind of fault asked for?"""
        return self._only in {"", kind}

    def begin(self) -> None:
        """The first controller enrols all hosts and begins."""
        if not self.controller.start(300):
            raise RuntimeError("the controller did not come up")

    def windows(self, seconds: float, times: int = 2) -> None:
        """Quiet and hung windows in turn: what other hosts' operations take in each."""
        names = self._random.sample(sorted(self.fleet.hosts), self._some)
        self.record.hung = frozenset(names)
        time.sleep(min(seconds, 10.0))
        for _ in range(times):
            self._window("quiet", seconds)
            heals = {name: self._inject(HUNG, name) for name in names}
            begin = time.monotonic()
            try:
                self._window("hung", seconds)
            finally:
                for name, heal in heals.items():
                    self._healed(HUNG.name, name, begin, heal)
            self.rest("hung hosts", then="stroll")

    def rounds(self, seconds: float) -> None:
        """Random faults on random hosts, a tenth of them at a time."""
        chosen = [each for each in FAULTS if self.wants(each.name)]
        end = time.monotonic() + seconds
        waiting: list[Fault] = []
        now: dict[str, tuple[float, Fault, float, Heal]] = {}
        while chosen and (now or time.monotonic() < end):
            cut = self.fleet.proxy.cuts_since()
            for name, (until, fault, begin, heal) in list(now.items()):
                if time.monotonic() >= until or name in cut:
                    del now[name]
                    self._healed(fault.name, name, begin, heal)
            if time.monotonic() < end and len(now) < self._some:
                waiting = waiting or self._random.sample(chosen, len(chosen))
                fault = waiting.pop()
                name = self._random.choice(sorted(self.fleet.hosts.keys() - now.keys()))
                self.controller.tell(f"hurry {name}")
                time.sleep(self._random.random() * COMMAND_S)
                begin = time.monotonic()
                now[name] = (begin + fault.seconds, fault, begin, self._inject(fault, name))
            for name in now:  # what is made for this fault comes as often as it can
                self.controller.tell(f"hurry {name}")
            time.sleep(0.2)

    def kills(self, times: int) -> None:
        """The controller, with an operation on every host under way; the next one goes on."""
        for _ in range(times):
            self.controller.tell("pause", self._converged_s)
            self.controller.tell("think 0")
            self.controller.tell("go")
            least, per_host = BURST_S
            time.sleep(least + self._random.random() * per_host * len(self.fleet.hosts))
            begin = time.monotonic()
            self.controller.kill()
            came_back = self.controller.start(self._converged_s)
            self.record.faults.append(Injected(CONTROLLER, "", begin, begin))
            if not came_back:
                self.record.unresolved.append(f"after {CONTROLLER}: not all had ended")

    def store_faults(self, server: PgServer, kills: int) -> None:
        """PostgreSQL killed and started again, and stopped for a while, under load."""
        if self.wants(STORE):
            for _ in range(kills):
                self.rest(f"before {STORE}")
                time.sleep(self._random.uniform(*STORE_S))
                begin = time.monotonic()
                server.kill()
                server.start()
                self.controller.tell("hurry nobody", self._converged_s)
                self.record.faults.append(Injected(STORE, "", begin, time.monotonic()))
        if self.wants("postgres-pause"):
            for seconds in STORE_PAUSES:
                self.rest("before postgres-pause")
                time.sleep(self._random.uniform(*STORE_S))
                begin = time.monotonic()
                with _stopped(server.pid):
                    time.sleep(seconds)
                self.record.faults.append(Injected("postgres-pause", "", begin, time.monotonic()))

    def rest(self, after: str, then: str = "go") -> bool:
        """All operators come to rest: whatever was cut has ended. Then they go on, all at once;
        ``stroll``: at their own pace.
        """
        rested = self.controller.tell("pause", self._converged_s)
        if rested:
            self.controller.tell(then)
        else:
            self.record.unresolved.append(f"after {after}: not all had ended")
            self._heard_late()
        return rested

    def check(self, after: str) -> None:
        """All at rest, then the independent checker looks."""
        if not self.controller.tell("pause", self._converged_s):
            self.record.unresolved.append(f"after {after}: not all had ended")
            self._heard_late()
        self._look(after)
        self.controller.tell("go")

    def end(self) -> None:
        """Every VM is deleted; nothing may be left."""
        self.controller.tell("pause", self._converged_s)
        if not self.controller.tell("clear", self._converged_s * 2):
            self.record.unresolved.append("at the end: not all could be deleted")
        dump = self._look("the end")
        self.record.violations += list(_left(dump))
        self.record.needs_operator = operations.needs_operator(Seen(dump))
        self.controller.kill()
        for host in self.fleet.hosts.values():  # the next ledger is another fleet
            shutil.rmtree(host.path("/var/lib/vgpumgr"), ignore_errors=True)

    @property
    def _converged_s(self) -> float:
        least, per_host = CONVERGED_S
        return least + per_host * len(self.fleet.hosts)

    @property
    def _some(self) -> int:
        return max(1, round(len(self.fleet.hosts) * AT_ONCE))

    def _heard_late(self) -> None:
        """Orders are answered in their order: without an answer no other can be given."""
        self.controller.kill()
        self.controller.start(self._converged_s)

    def _look(self, after: str) -> dict[str, Any]:
        dump = world.dump(self._ledger, self.fleet.hosts)
        found = [f"after {after}: {each}" for each in check(dump)]
        say(f"checked after {after}: {len(found)} violations")
        self.record.violations += found
        self.record.load.append(round(os.getloadavg()[0], 2))
        return dump

    def _window(self, kind: str, seconds: float) -> None:
        begin = time.monotonic()
        time.sleep(seconds)
        self.record.windows.append((kind, begin, time.monotonic()))
        self.controller.tell(f"plan {kind}", self._converged_s)

    def _inject(self, fault: Fault, name: str) -> Heal:
        say(f"{fault.name} on {name}")
        return fault.inject(self.fleet, self.fleet.hosts[name], self._random)

    def _healed(self, fault: str, name: str, begin: float, heal: Heal) -> None:
        heal()
        self.record.faults.append(Injected(fault, name, begin, time.monotonic()))


def say(text: str) -> None:
    """A line for whoever watches."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _left(dump: dict[str, Any]) -> Iterator[str]:
    """What is on hosts when every VM was deleted."""
    for name, host in dump["hosts"].items():
        things: dict[str, Callable[[], list[str]]] = {
            "domain": lambda h=host: [each["name"] for each in h["domains"]],
            "mdev": lambda h=host: [each["uuid"] for each in h["probe"]["mdevs"]],
            "claim": lambda h=host: [each["unit"] for each in h["probe"]["claims"]],
            "volume": lambda h=host: [each for _, each in h["volumes"] if each != "halt.img"],
        }
        for kind, found in things.items():
            yield from (f"at the end: I3 {kind}: {each} is left on {name}" for each in found())


class _stopped:  # noqa: N801 - used as a with statement
    """The server and its backends, SIGSTOPped for the body."""

    def __init__(self, postmaster: int) -> None:
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text()
        self._pids = [postmaster, *map(int, children.split())]

    def __enter__(self) -> None:
        self._send(signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for pid in self._pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

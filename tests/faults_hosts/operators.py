"""Operators: users who work on one host each, at their pace, and write down what happens."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.faults_hosts.fleet import IMAGE
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.errors import ClaimLost, NotFound, VgpumgrError
from vgpumgr.model.vm import Affinity, GpuRequest, VmSpec, VmState
from vgpumgr.model.vm_devices import DiskMode, DiskSpec

AGAIN_S = 0.5
# What a process ends with when its claims are lost: whoever started it starts it again.
CLAIMS_LOST = 75


class Log:
    """Lines that survive this process's death: each is one write."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, what: str, **more: object) -> None:
        line = json.dumps({"at": time.monotonic(), "what": what, **more})
        os.write(self._file, line.encode() + b"\n")


class Pace:
    """How fast operators go, and whether they rest."""

    def __init__(self, think_s: float) -> None:
        self.think_s = think_s
        self._rest, self._go, self._at_once = False, threading.Event(), True
        self._hurried: set[str] = set()
        self.clearing = False
        self._resting = 0
        self._changed = threading.Condition()

    def think(self, host: str, seed: random.Random) -> None:
        """Pause; a rest that was asked for begins here, and may end with thinking anew."""
        while self._rested(host, seed) and not self._at_once:
            pass

    def _rested(self, host: str, seed: random.Random) -> bool:
        with self._changed:
            self._hurried.discard(host)
            self._changed.wait_for(
                lambda: self._rest or host in self._hurried,
                timeout=seed.expovariate(1) * self.think_s,
            )
            if not self._rest:
                return False
            self._resting += 1
            self._changed.notify_all()
        self._go.wait()
        with self._changed:
            self._resting -= 1
            self._changed.notify_all()
        return True

    def pause(self, operators: int) -> None:
        """Until all rest."""
        self._go.clear()
        with self._changed:
            self._rest = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._resting >= operators)

    def hurry(self, host: str) -> None:
        """The pause of that host's operator ends."""
        with self._changed:
            self._hurried.add(host)
            self._changed.notify_all()

    def go(self, *, at_once: bool = True) -> None:
        """All begin their next command at once, or each when it has thought."""
        with self._changed:
            self._rest, self._at_once = False, at_once
            self._go.set()
            self._changed.wait_for(lambda: self._resting == 0)


class Operator:
    """One user, one host, a few VMs."""

    def __init__(self, engine: Engine, log: Log, pace: Pace, host: str, order: dict[str, Any]):
        self._engine = engine
        self._log = log
        self._pace = pace
        self._host = host
        self._names = [f"{host}-vm{number}" for number in range(order["vms"])]
        self._random = random.Random(f"{order['seed']} {host} {order['life']}")

    def work(self) -> None:
        """Until the process ends."""
        while True:
            self._pace.think(self._host, self._random)
            if self._pace.clearing:
                for name in self._names:
                    self._until_done("delete", name)
                continue
            name = self._random.choice(self._names)
            kind = self._random.choice(self._choices(name))
            self._until_done(kind, name)

    def _choices(self, name: str) -> tuple[str, ...]:
        try:
            vm = self._engine.ledger.vm(name)
        except NotFound:
            return ("create",)
        except VgpumgrError:
            return ("start",)  # the store is away: whatever is tried now tells
        if vm.state is not VmState.ACTIVE:
            return ("delete",)
        return ("stop", "stop", "delete") if vm.running else ("start", "start", "delete")

    def _until_done(self, kind: str, name: str) -> None:
        """The same command again until it is done, as the messages say."""
        number = uuid.uuid4().hex[:12]
        about = {"op": number, "kind": kind, "vm": name, "host": self._host}
        self._log.say("begin", **about)
        tries = 1
        while (error := self._try(kind, name)) is not None:
            self._log.say("failed", **about, error=error)
            tries += 1
            time.sleep(AGAIN_S)
        self._log.say("end", **about, tries=tries)

    def _try(self, kind: str, name: str) -> str | None:
        try:
            self._command(kind, name)
        except NotFound as error:
            return None if kind in {"delete", "stop", "start"} else error.code
        except Exception as error:
            return told(error, self._log)
        return None

    def _command(self, kind: str, name: str) -> None:
        commands: dict[str, Callable[[], Any]] = {
            "create": lambda: self._engine.apply([self._spec(name)])[1],
            "delete": lambda: self._engine.delete([name], keep_disks=False, force=True),
            "start": lambda: self._engine.start([name]),
            "stop": lambda: self._engine.stop_vms([name], force=True, timeout_s=10),
        }
        commands[kind]().raise_for_failure()

    def _spec(self, name: str) -> VmSpec:
        disk = DiskSpec(mode=DiskMode.COPY, image=IMAGE, image_format="raw", format="raw")
        return VmSpec(
            name=name,
            vcpus=1,
            memory_mib=32,
            firmware="bios",
            gpus=(GpuRequest(profile="mtty-1"),),
            disks=(disk,),
            affinity=Affinity(hosts=(self._host,)),
        )


def told(error: Exception, log: Log) -> str:
    """An error in a line. One is no use to wait after: this process must not go on."""
    if isinstance(error, ClaimLost):
        log.say("claims lost", why=error.why)
        os._exit(CLAIMS_LOST)
    if isinstance(error, VgpumgrError):
        return f"{error.code}: {error.message}: {error.why}"
    return f"TRACEBACK {type(error).__name__}: {error}"

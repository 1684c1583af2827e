"""A small fleet of which one host lies, the commands that meet it, and what must hold after each.

No traceback; no control character of the host's on either stream; the other host's lines as before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock

from tests.e2e.support import Cli, Ran, host, new_cli, run_argv
from tests.hostile.fleets import BAD, FLEETS, GOOD
from tests.hostile.tally import Tally
from vgpumgr.model.gpu import GpuState
from vgpumgr.sim import control
from vgpumgr.sim.transport.libvirt_proxies import SimRunner
from vgpumgr.store import open_ledger

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# What differs from one time to the next, whatever the host says: ids, times, generations.
_PASSING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{8}\b|\d{10}\.\d+")
_COUNTED = re.compile(r"generation=\d+|revision=\d+")
# Lists of everything, less what time changes.
_HOSTS = ("host", "list", "--columns", "NAME,GPUS,CPUS,MEMORY")
_GPUS = ("gpu", "list", "--columns", "HOST,DEVICE,MODEL,STATE")

READS: tuple[tuple[str, ...], ...] = (
    ("host", "list"),
    ("host", "show", BAD),
    ("gpu", "list"),
    ("gpu", "list", "-o", "wide"),
    ("map",),
    ("plan", "-f", "{wish}"),
    ("explain", "-f", "{wish}"),
    ("capacity",),
    ("layout", "show"),
    ("layout", "export"),
    ("drift",),
    ("heal",),
    ("simulate", "-f", "{wish}"),
    ("vm", "list"),
    ("serve", "--once"),
    ("doctor",),
    ("adopt",),
    ("layout", "plan", "-f", "{layout}"),
    ("gpu", "list", "-o", "json"),
    ("host", "list", "-o", "json"),
    ("host", "list", "-o", "csv"),
    ("gpu", "list", "-o", "name"),
    ("gpu", "list", "-o", "yaml"),
)
# It looks at each row of the ledger: a tenth of the time, if it came each time.
SELDOM = ("store", "check")


class World:
    """The fleet, and one person at it."""

    def __init__(self, cli: Cli, tally: Tally, files: dict[str, str]) -> None:
        self.cli = cli
        self.tally = tally
        self.files = files
        self.truth: list[list[str]] = []
        self._known: set[int] = set()

    def run(self, *words: str, of: str = "") -> Ran:
        """A command; what must never be is written down as a fault of ours."""
        argv = [word.format(**self.files) if word.startswith("{") else word for word in words]
        name = " ".join(words[:2])
        before = time.process_time()
        try:
            ran = run_argv("vgpumgr", "--state-dir", str(self.cli.state), *argv)
        except AssertionError as error:
            self._fault(of, name, str(error)[-1500:])
            return Ran(1, "", "")
        except Exception as error:  # past everything that turns one into words
            self._fault(of, name, repr(error)[-1500:])
            return Ran(1, "", "")
        spent = time.process_time() - before
        self.tally.commands += 1
        (self.tally.lied_s if of else self.tally.clean_s).setdefault(name, []).append(spent)
        raw = RAW.search(ran.out) or RAW.search(ran.err)
        if raw:
            self._fault(of, name, f"raw {raw[0]!r} reaches the terminal")
        return ran

    def die(self, verb: str, *words: str) -> None:
        """A command whose process is gone as soon as the host has done as ``verb`` says."""
        run = SimRunner.run

        def fatal(self: SimRunner, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Any:
            ended = run(self, argv, stdin, timeout_s)
            if json.loads(stdin)["verb"] == verb:
                os._exit(9)
            return ended

        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            with mock.patch.object(SimRunner, "run", fatal):
                self.run(*words)
        finally:
            os._exit(0)

    def open_operations(self) -> list[str]:
        """Those that were cut."""
        return [each["name"] for each in self.cli.items("operation", "list", "--open")]

    def lie(self, verb: str, path: str, text: str) -> None:
        """The bad host says this from now on."""
        control.inject(self.cli.state / "sim", BAD, ["lie", verb, path, text])

    def truthful(self) -> None:
        """It says what is so."""
        control.inject(self.cli.state / "sim", BAD, ["clear"])

    def lift(self) -> None:
        """What a lie put out of use is used again: the ledger, and GPUs."""
        with closing(open_ledger(self.cli.state / "ledger.sqlite")) as ledger:
            frozen, gpus = ledger.frozen(), ledger.gpus(BAD)
        if frozen and self.run("store", "thaw", "--apply", "-y").code:
            self.run("store", "thaw", "--apply", "-y", "--without", BAD)
            self.run("host", "uncordon", BAD)
        for gpu in gpus:
            if gpu.state is GpuState.QUARANTINED:
                self.run("heal", BAD, "--lift", gpu.id, "--apply", "-y")

    def learned(self) -> bool:
        """Does the ledger know something of the bad host that it never knew before?"""
        with closing(open_ledger(self.cli.state / "ledger.sqlite")) as ledger:
            found = [each.facts for each in ledger.hosts() if each.name == BAD]
            told = repr((found, ledger.gpus(BAD), ledger.vms(), ledger.allocations()))
        now = hash(_COUNTED.sub("", _PASSING.sub("", told)))
        fresh = now not in self._known
        self._known.add(now)
        return fresh

    def good_lines(self, of: str = "") -> list[str]:
        """What lists say of the good host."""
        listed = [self.run(*_HOSTS, of=of).out, self.run(*_GPUS, of=of).out]
        return [line for text in listed for line in text.splitlines() if GOOD in line]

    def unharmed(self, of: str) -> None:
        """The good host's lines are those of before."""
        if (now := [line.split() for line in self.good_lines(of)]) != self.truth:
            self._fault(of, "good host", f"{now}")

    def _fault(self, of: str, command: str, what: str) -> None:
        self.tally.faults.append(f"{of}: {command}: {what}")


@contextmanager
def world(tally: Tally, name: str) -> Iterator[World]:
    """A fleet of that name, begun."""
    fleet = FLEETS[name]
    with new_cli() as cli:
        images = ["base.qcow2"]
        bad = host(BAD, *fleet.boards, versions=NEW, images=images, **fleet.more)
        cli.sim_up(host(GOOD, ("T4", 1), images=images), bad)
        files = {
            name: cli.documents(each, name=f"{name}.yaml") for name, each in fleet.documents.items()
        }
        made = World(cli, tally, files)
        for words in fleet.begin:
            ran = made.run(*words)
            assert ran.code == 0, ran
        made.truth = [line.split() for line in made.good_lines()]
        made.learned()
        yield made


# Between a command and this process, whose memory a fork would be weighed with.
_WEIGH = """
import json, resource, subprocess, sys
subprocess.run(json.loads(sys.argv[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def cost(made: World, *words: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of a command in a process of its own."""
    given = [word.format(**made.files) if word.startswith("{") else word for word in words]
    command = [sys.executable, "-m", "vgpumgr", "--state-dir", str(made.cli.state), *given]
    argv = [sys.executable, "-c", _WEIGH, json.dumps(command)]
    seconds, mib = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return seconds, mib


def asked(act: Callable[[], object]) -> list[tuple[str, bytes]]:
    """The verbs that helpers were asked while ``act`` ran, and what they answered."""
    found: list[tuple[str, bytes]] = []
    run = SimRunner.run

    def listening(self: SimRunner, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Any:
        ended = run(self, argv, stdin, timeout_s)
        found.append((json.loads(stdin)["verb"], ended.out))
        return ended

    with mock.patch.object(SimRunner, "run", listening):
        act()
    return found

"""A small fleet of which all hosts but one lie, the commands that meet them, and what must hold.

No traceback; no control character of a host's on either stream; the honest host's lines as before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock

from tests.e2e.support import Cli, Ran, host, new_cli, run_argv
from tests.hostile.fleets import FLEETS, GOOD, Fleet, bad_names
from tests.hostile.tally import Tally
from vgpumgr.model.gpu import GpuState
from vgpumgr.sim import control
from vgpumgr.sim.transport.libvirt_proxies import SimRunner
from vgpumgr.store import open_ledger

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# An error that nothing expected, which a thread of ours met: in words there, but a fault of ours.
_DEFECT = re.compile(r"\b[A-Z]\w*(Error|Exception)\(.{0,300}")
# What differs from one time to the next, whatever the host says: ids, times, generations.
_PASSING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{8}\b|\d{10}\.\d+")
_COUNTED = re.compile(r"generation=\d+|revision=\d+")
# Lists of everything, less what time changes.
_HOSTS = ("host", "list", "--columns", "NAME,GPUS,CPUS,MEMORY")
_GPUS = ("gpu", "list", "--columns", "HOST,DEVICE,MODEL,STATE")

READS: tuple[tuple[str, ...], ...] = (
    ("host", "list"),
    ("host", "show", "{host}"),
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
    ("top",),
    ("metrics", "show"),
    ("balance", "plan"),
    ("power", "list"),
    ("licence", "list"),
    ("image", "list"),
    ("backup", "list"),
)
# It looks at each row of the ledger: a tenth of the time, if it came each time.
SELDOM = ("store", "check")
# A command is gone after so many seconds, though not every host of it was asked by that verb.
_LAST_S = 20.0


class World:
    """The fleet, and one person at it. ``bad`` are the hosts that lie, all of one kind."""

    def __init__(self, cli: Cli, tally: Tally, fleet: Fleet, bad: Sequence[str]) -> None:
        self.cli = cli
        self.tally = tally
        self.fleet = fleet
        self.bad = bad
        self.truth: list[list[str]] = []
        self.faults: list[str] = []
        self.refusals = ""
        self._known: set[int] = set()

    def typed(self, words: Sequence[str], hosts: Sequence[str]) -> Iterator[list[str]]:
        """The commands that ``words`` stand for where they are about these hosts."""
        if any("{host}" in word for word in words):
            for each in hosts:
                yield [self._file(word.replace("{host}", each), [each]) for word in words]
            return
        found: list[str] = []
        for word in words:
            many = "{hosts}" in word
            found += [word.replace("{hosts}", each) for each in hosts] if many else [word]
        yield [self._file(word, hosts) for word in found]

    def _file(self, word: str, hosts: Sequence[str]) -> str:
        if not word.startswith("{"):
            return word
        name = word.strip("{}")
        return self.cli.documents(*self.fleet.document(name, hosts), name=f"{name}.yaml")

    def run(self, words: Sequence[str], hosts: Sequence[str] = (), *, lied: bool = False) -> int:
        """Commands about these hosts, and the worst exit code; what must never be is a fault."""
        return max(
            (self._one(argv, " ".join(words[:2]), lied).code for argv in self.typed(words, hosts)),
            default=0,
        )

    def _one(self, argv: Sequence[str], name: str, lied: bool) -> Ran:
        before = time.process_time()
        try:
            ran = run_argv("vgpumgr", "--state-dir", str(self.cli.state), *argv)
        except AssertionError as error:
            return self._fault(name, str(error)[-1500:])
        except Exception as error:  # past everything that turns one into words
            return self._fault(name, repr(error)[-1500:])
        spent = time.process_time() - before
        self.tally.commands += 1
        if lied and ran.code:
            self.tally.refused += 1
            self.refusals += ran.err
        (self.tally.lied_s if lied else self.tally.clean_s).setdefault(name, []).append(spent)
        raw = RAW.search(ran.out) or RAW.search(ran.err)
        if raw:
            self._fault(name, f"raw {raw[0]!r} reaches the terminal")
        defect = _DEFECT.search(ran.out) or _DEFECT.search(ran.err)
        if defect:
            self._fault(name, defect[0])
        return ran

    def die(self, verb: str, words: Sequence[str], hosts: Sequence[str]) -> None:
        """A command whose process is gone as soon as each host has done as ``verb`` says."""
        run, left, gone = SimRunner.run, set(hosts), threading.Event()

        def fatal(self: SimRunner, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Any:
            ended = run(self, argv, stdin, timeout_s)
            if json.loads(stdin)["verb"] == verb:
                left.discard(_host_of(self))
                if left:
                    gone.wait(_LAST_S)
                os._exit(9)
            return ended

        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            with mock.patch.object(SimRunner, "run", fatal):
                self.run(words, hosts)
        finally:
            os._exit(0)

    def open_operations(self) -> list[str]:
        """Those that were cut."""
        return [each["name"] for each in self.cli.items("operation", "list", "--open")]

    def lie(self, host: str, verb: str, path: str, text: str) -> None:
        """That host says this from now on."""
        control.inject(self.cli.state / "sim", host, ["lie", verb, path, text])

    def truthful(self, hosts: Sequence[str]) -> None:
        """They say what is so."""
        for each in hosts:
            control.inject(self.cli.state / "sim", each, ["clear"])

    def lift(self) -> None:
        """What a lie put out of use is used again: the ledger, and GPUs."""
        with closing(open_ledger(self.cli.state / "ledger.sqlite")) as ledger:
            frozen = ledger.frozen()
            out = [each for each in ledger.gpus() if each.state is GpuState.QUARANTINED]
        if frozen and self.run(("store", "thaw", "--apply", "-y")):
            without = [word for each in self.bad for word in ("--without", each)]
            self.run(("store", "thaw", "--apply", "-y", *without))
            self.run(("host", "uncordon", "{hosts}"), self.bad)
        for gpu in out:
            self.run(("heal", gpu.host, "--lift", gpu.id, "--apply", "-y"))

    def learned(self, hosts: Sequence[str]) -> list[str]:
        """Of which of them does the ledger know what it never knew of any before?

        Not one of which a command has said since the last time what is wrong with its answer.
        """
        refusals, self.refusals = self.refusals, ""
        with closing(open_ledger(self.cli.state / "ledger.sqlite")) as ledger:
            rows = [(each.name, each.facts) for each in ledger.hosts()]
            more = (ledger.gpus(), ledger.vms(), ledger.allocations())
            rows += [(each.host, each) for part in more for each in part]
        told = {name: repr([row for host, row in rows if host == name]) for name in hosts}
        new = [name for name, text in told.items() if self._is_new(text.replace(name, "bad"))]
        return [name for name in new if name not in refusals]

    def _is_new(self, text: str) -> bool:
        now = hash(_COUNTED.sub("", _PASSING.sub("", text)))
        fresh = now not in self._known
        self._known.add(now)
        return fresh

    def good_lines(self) -> list[list[str]]:
        """What lists say of the good host."""
        ran = [self._one(words, " ".join(words[:2]), True) for words in (_HOSTS, _GPUS)]
        return [line.split() for each in ran for line in each.out.splitlines() if GOOD in line]

    def unharmed(self) -> None:
        """The good host's lines are those of before."""
        if (now := self.good_lines()) != self.truth:
            self._fault("good host", f"{now}")

    def _fault(self, command: str, what: str) -> Ran:
        self.faults.append(f"{command}: {what}")
        return Ran(1, "", "")


@contextmanager
def world(tally: Tally, name: str, together: int) -> Iterator[World]:
    """A fleet of that name with so many hosts that lie, begun."""
    fleet, bad = FLEETS[name], bad_names(together)
    with new_cli() as cli:
        images = ["base.qcow2"]
        liars = [host(b, *fleet.boards, versions=NEW, images=images, **fleet.more) for b in bad]
        cli.sim_up(host(GOOD, ("T4", 1), images=images), *liars)
        made = World(cli, tally, fleet, bad)
        for words in fleet.begin:
            assert made.run(words, bad) == 0, (words, made.faults)
        made.truth = made.good_lines()
        made.learned(bad)
        assert not made.faults, made.faults
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
    [given] = made.typed(words, made.bad[:1])
    command = [sys.executable, "-m", "vgpumgr", "--state-dir", str(made.cli.state), *given]
    argv = [sys.executable, "-c", _WEIGH, json.dumps(command)]
    seconds, mib = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return seconds, mib


def _host_of(runner: SimRunner) -> str:
    call: Any = runner._call
    return str(call.args[0])


def asked(act: Callable[[], object]) -> list[tuple[str, str, bytes]]:
    """The hosts whose helpers were asked while ``act`` ran, by which verb, and what they said."""
    found: list[tuple[str, str, bytes]] = []
    run = SimRunner.run

    def listening(self: SimRunner, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Any:
        ended = run(self, argv, stdin, timeout_s)
        found.append((_host_of(self), json.loads(stdin)["verb"], ended.out))
        return ended

    with mock.patch.object(SimRunner, "run", listening):
        act()
    return found

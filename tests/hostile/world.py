"""A small fleet of which one host lies, the commands that meet it, and what must hold after each.

No traceback; no control character of the host's on either stream; the other host's lines as before.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tests.e2e.support import Cli, Ran, host, names, new_cli, run_argv, vm
from vgpumgr.sim import control
from vgpumgr.sim.transport.calls import SimRunner

GOOD, BAD = "good", "bad"
NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
_MIG = "A100-PCIE-40GB"
_THERE = {"affinity": {"hosts": [BAD]}}
_DISK = {"mode": "overlay", "image": "base.qcow2"}
_VMS = {
    "mdev": vm("mdev", "T4-4Q", **_THERE),
    "vf": vm("vf", "A40-8Q", **_THERE),
    "instance": vm("instance", "1g.5gb", **_THERE),
    "whole": vm("whole", gpus=[{"profile": "passthrough", "model": "T4"}], **_THERE),
    "disk": vm("disk", disks=[_DISK], **_THERE),
}
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
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
    ("store", "check"),
    ("host", "list", "-o", "csv"),
    ("gpu", "list", "-o", "name"),
    ("gpu", "list", "-o", "yaml"),
)


@dataclass(slots=True)
class Tally:
    """What was tried, and what it cost beside the same with the truth (CPU seconds)."""

    possible: int = 0
    mutations: int = 0
    commands: int = 0
    refused: int = 0
    clean_s: dict[str, list[float]] = field(default_factory=dict)
    lied_s: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    processes: dict[str, tuple[float, float]] = field(default_factory=dict)


class World:
    """The fleet, and one person at it."""

    def __init__(self, cli: Cli, tally: Tally, files: dict[str, str]) -> None:
        self.cli = cli
        self.tally = tally
        self.files = files
        self.truth: list[list[str]] = []

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
        spent = time.process_time() - before
        self.tally.commands += 1
        (self.tally.lied_s if of else self.tally.clean_s).setdefault(name, []).append(spent)
        raw = RAW.search(ran.out) or RAW.search(ran.err)
        if raw:
            self._fault(of, name, f"raw {raw[0]!r} reaches the terminal")
        return ran

    def open_operations(self) -> list[str]:
        """Those that a lie cut."""
        return names(self.cli.items("operation", "list", "--open"))

    def lie(self, verb: str, path: str, text: str) -> None:
        """The bad host says this from now on."""
        control.inject(self.cli.state / "sim", BAD, ["lie", verb, path, text])

    def truthful(self) -> None:
        """It says what is so."""
        control.inject(self.cli.state / "sim", BAD, ["clear"])

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
def world(tally: Tally) -> Iterator[World]:
    """A good host of one T4; a bad one with T4s for mdevs and whole, an A40 of VFs under the
    vendor's framework, and an A100 in MIG.
    """
    with new_cli() as cli:
        cli.sim_up(
            host(GOOD, ("T4", 1)),
            host(BAD, ("T4", 2), ("A40", 1), (_MIG, 1), versions=NEW, images=["base.qcow2"]),
        )
        files = {
            "layout": cli.documents(_layout("2g.10gb"), name="layout.yaml"),
            "other": cli.documents(_layout("3g.20gb"), name="other.yaml"),
            "wish": cli.documents(vm("wish", "T4-4Q"), name="wish.yaml"),
            **{name: cli.documents(each, name=f"{name}.yaml") for name, each in _VMS.items()},
            "stay": cli.documents(vm("stay", "T4-4Q", **_THERE), name="stay.yaml"),
        }
        cli.ok("layout", "apply", "-f", files["layout"], "-y")
        cli.ok("apply", "-f", files["stay"])
        made = World(cli, tally, files)
        made.truth = [line.split() for line in made.good_lines()]
        yield made


def _layout(third: str) -> dict[str, Any]:
    instances = [{"profile": "1g.5gb", "count": 2}, {"profile": third}]
    return {
        "kind": "Layout",
        "name": "carved",
        "hosts": [BAD],
        "gpus": [
            {"model": "A40", "vfs": "max"},
            {"model": _MIG, "mig": True, "vfs": "max", "instances": instances},
        ],
    }


# Between a command and this process, whose memory a fork would be weighed with.
_WEIGH = """
import json, resource, subprocess, sys
subprocess.run(json.loads(sys.argv[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def cost(made: World, *words: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of a command in a process of its own."""
    command = [sys.executable, "-m", "vgpumgr", "--state-dir", str(made.cli.state), *words]
    argv = [sys.executable, "-c", _WEIGH, json.dumps(command)]
    seconds, mib = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return seconds, mib


def taped(act: Callable[[], object]) -> dict[str, list[dict[str, Any]]]:
    """The whole answers that helpers gave while ``act`` ran, by verb."""
    found: dict[str, list[dict[str, Any]]] = {}
    run = SimRunner.run

    def listening(self: SimRunner, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Any:
        ended = run(self, argv, stdin, timeout_s)
        found.setdefault(json.loads(stdin)["verb"], []).append(json.loads(ended.out))
        return ended

    with mock.patch.object(SimRunner, "run", listening):
        act()
    return found


def peak_mib() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

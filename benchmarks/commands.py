"""CPU seconds of what a user runs on simulated fleets of 8-GPU hosts, of this tree and of another.

``python benchmarks/commands.py --hosts 100 1000 [--tree CHECKOUT] [--vms 40] [--serve]``: 40 % of
the hosts have T4, 40 % A40, 20 % HGX A100. With ``--serve`` a controller keeps looking at them, and
is waited for until it has looked at all of them twice. Each command runs three times with every
tree, in turn, on a fleet and a ledger of that tree; medians go to stdout as JSON. CPU is what the
command's own processes used (rusage); the simulator is another process, and not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS = 3
FLEET = """
apiVersion: vgpumgr/v1
kind: Fleet
name: commands
hosts:
  - {{name: t4, count: {t4}, cpus: 64, memory: 512GiB, gpus: [{{board: T4, count: 8}}]}}
  - {{name: a40, count: {a40}, cpus: 64, memory: 512GiB, gpus: [{{board: A40, count: 8}}]}}
  - {{name: hgx, count: {hgx}, cpus: 192, memory: 2TiB,
      gpus: [{{board: A100-SXM4-40GB, count: 8}}]}}
"""
VMS = """
apiVersion: vgpumgr/v1
kind: VM
name: {name}
replicas: {count}
vcpus: 2
memory: 4GiB
gpus: [{{profile: {profile}}}]
disks: [{{size: 20GiB}}]
networks: [{{network: default}}]
"""
COMMANDS: dict[str, list[str]] = {
    "capacity": ["capacity"],
    "map": ["map"],
    "gpu list": ["gpu", "list"],
    "vm list": ["vm", "list"],
    "drift": ["drift"],
    "defrag plan": ["defrag", "plan"],
    "plan of ten": ["apply", "-f", "ten.yaml", "--dry-run"],
    "apply of one": ["apply", "-f", "one-{round}.yaml"],
}
ENDS_OTHERWISE = {"drift", "defrag plan"}
"""Differences, and no moves that do, are exit codes of their own."""


class World:
    """A simulated fleet, and the commands of one tree on it."""

    def __init__(self, home: Path, tree: Path, hosts: int, vms: int) -> None:
        self._home = home
        few = hosts * 2 // 5
        fleet = FLEET.format(t4=few, a40=few, hgx=hosts - 2 * few)
        (home / "fleet.yaml").write_text(fleet)
        self._file("many", vms, "T4-1Q")
        self._file("ten", 10, "T4-2Q")
        for number in range(ROUNDS):
            self._file(f"one-{number}", 1, "T4-4Q")
        self.environ = {
            **os.environ,
            "VGPUMGR_STATE_DIR": str(home / "state"),
            "PYTHONPATH": str(tree),
        }
        self.environ.pop("PYTHONDONTWRITEBYTECODE", None)

    def _file(self, name: str, count: int, profile: str) -> None:
        (self._home / f"{name}.yaml").write_text(
            VMS.format(name=name, count=count, profile=profile)
        )

    @property
    def said(self) -> str:
        """What the last command printed."""
        return (self._home / "out").read_text()

    def cpu_s(self, words: list[str], *, any_end: bool = False) -> float:
        """User and system time of one command; its output where it fails."""
        with (self._home / "out").open("w") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", "vgpumgr", *words],
                env=self.environ,
                cwd=self._home,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode and not any_end:
            told = (self._home / "out").read_text()[-2000:]
            raise SystemExit(f"{' '.join(words)} ended with {child.returncode}: {told}")
        return used.ru_utime + used.ru_stime

    @contextmanager
    def served(self) -> Iterator[None]:
        """With a controller that has looked at every host twice."""
        said, status = (self._home / "served").open("w"), self._home / "state" / "serve.json"
        words = [sys.executable, "-m", "vgpumgr", "serve"]
        process = subprocess.Popen(words, env=self.environ, stdout=said, stderr=said)
        try:
            for _ in range(2):
                began = time.time()
                while not _looked_since(status, began):
                    time.sleep(1)
            yield
        finally:
            process.terminate()
            process.wait()

    def beside(self, *, served: bool) -> AbstractContextManager[None]:
        """A controller, where one is wanted."""
        return self.served() if served else nullcontext()

    def measured(self) -> dict[str, float]:
        """The medians, by command."""
        found: dict[str, float] = {}
        for name, words in COMMANDS.items():
            times = [
                self.cpu_s(
                    [word.format(round=number) for word in words],
                    any_end=name in ENDS_OTHERWISE,
                )
                for number in range(ROUNDS)
            ]
            found[name] = round(median(times), 2)
        return found


def _looked_since(status: Path, began: float) -> bool:
    try:
        told = json.loads(status.read_text())
    except FileNotFoundError:
        return False
    hosts = told["hosts"]
    return bool(hosts) and all(each["turn_at"] and each["turn_at"] >= began for each in hosts)


@contextmanager
def world(tree: Path, hosts: int, vms: int) -> Iterator[World]:
    """A fleet that is up, with its VMs, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        made = World(Path(folder), tree, hosts, vms)
        try:
            made.cpu_s(["sim", "up", "-f", "fleet.yaml"])
            if vms:
                made.cpu_s(["apply", "-f", "many.yaml"])
            yield made
        finally:
            made.cpu_s(["sim", "down"], any_end=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hosts", type=int, nargs="+", default=[100])
    options.add_argument("--vms", type=int, default=0, help="T4-1Q on the fleet before it begins")
    options.add_argument("--serve", action="store_true", help="beside a running controller")
    options.add_argument("--tree", type=Path, help="another checkout, measured beside this one")
    asked = options.parse_args()
    trees = {"this": Path(__file__).resolve().parents[1]}
    if asked.tree:
        trees["other"] = asked.tree.resolve()
    result: dict[str, Any] = {
        "benchmark": "commands", "rounds": ROUNDS, "vms": asked.vms, "serve": asked.serve,
        "load_before": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    for hosts in asked.hosts:
        for name, tree in trees.items():
            with (
                world(tree, hosts, asked.vms) as made,
                made.served() if asked.serve else nullcontext(),
            ):
                result.setdefault(f"{hosts} hosts, CPU s", {})[name] = made.measured()
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

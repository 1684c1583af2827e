"""CPU and memory of `serve` over fleets of 8-GPU hosts on which nothing happens, and on which some
hosts change.

``python benchmarks/serve_scale.py --hosts 1000 [--changing 0.01] [--tree OTHER_CHECKOUT]``: a
simulated fleet (40 % T4, 40 % A40, 20 % A100) is enrolled, ``serve`` looks at it until every host
was compared, and then its processor time and its resident memory are taken for as long as
``--cycles`` say. The simulator's own processor time is not counted. ``--changing`` is the share of
hosts that change in a minute: an operator cordons them, or takes them again, by the ledger.
Prints JSON.
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
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from vgpumgr.store import open_ledger

HEAD = "apiVersion: vgpumgr/v1\nkind: Fleet\nname: bench\nhosts:\n"
HOSTS = (
    "  - {{name: {name}, count: {count}, cpus: {cpus}, memory: 1TiB, "
    "gpus: [{{board: {board}, count: 8}}]}}\n"
)
# Board, CPUs, and its hosts of every five.
KINDS = {"t4": ("T4", 64, 2), "a40": ("A40", 64, 2), "hgx": ("A100-SXM4-40GB", 96, 1)}
MOST = 1000
"""Hosts in one entry of a fleet."""
INTERVAL_S = 30.0
TICK = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of processor time, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_mib(pid: int) -> int:
    """Resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def fleet(hosts: int) -> str:
    """The document of so many hosts."""
    entries = []
    for name, (board, cpus, share) in KINDS.items():
        left = hosts * share // 5
        for number in range(-(-left // MOST)):
            count = min(MOST, left - number * MOST)
            kind = f"{name}-{'abcdef'[number]}"
            entries.append(HOSTS.format(name=kind, count=count, cpus=cpus, board=board))
    return HEAD + "".join(entries)


class Bench:
    """One state folder, and the program of one checkout."""

    def __init__(self, home: Path, tree: Path) -> None:
        self.state = home / "state"
        self._home = home
        self._environ = {
            **os.environ, "VGPUMGR_STATE_DIR": str(self.state), "PYTHONPATH": str(tree),
        }  # fmt: skip

    def run(self, *words: str) -> None:
        """One command, to its end."""
        said = (self._home / "said").open("a")
        subprocess.run(self._program(*words), env=self._environ, check=True, stdout=said)

    @contextmanager
    def serve(self) -> Iterator[int]:
        """The process id of a controller."""
        said = (self._home / "served").open("a")
        words = self._program("serve", "--interval", str(INTERVAL_S))
        process = subprocess.Popen(words, env=self._environ, stdout=said, stderr=said)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()

    def _program(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "vgpumgr", *words]

    def seen(self) -> int:
        """How many hosts' last cycle went well, by the status file."""
        try:
            status = json.loads((self.state / "serve.json").read_text())
        except FileNotFoundError:
            return 0
        return sum(host["state"] == "ok" for host in status["hosts"])


def settled(bench: Bench, pid: int, hosts: int) -> float:
    """Seconds until every host was compared, and three cycles cost the same."""
    began = time.monotonic()
    while bench.seen() < hosts:
        time.sleep(1)
    last, equal = 0.0, 0
    while equal < 2:
        before = cpu_s(pid)
        time.sleep(INTERVAL_S)
        now = cpu_s(pid) - before
        equal = equal + 1 if 0.8 * last < now < 1.2 * last else 0
        last = now
    return time.monotonic() - began


def change(bench: Bench, share: float, hosts: int, seconds: float) -> int:
    """Let time pass, with so many hosts changing in a minute; how many did."""
    pause = 60 / (share * hosts) if share else seconds
    ledger, until, changed = open_ledger(bench.state / "ledger.sqlite"), time.monotonic(), 0
    names = cycle([host.name for host in ledger.hosts()])
    until += seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(pause, left))
        if share:
            record = ledger.host(next(names))
            ledger.update_host(replace(record, cordoned=not record.cordoned))
            changed += 1
    ledger.close()
    return changed


def measure(tree: Path, hosts: int, cycles: int, share: float) -> dict[str, object]:
    """One fleet from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "fleet.yaml").write_text(fleet(hosts))
        bench = Bench(home, tree)
        try:
            bench.run("sim", "up", "-f", str(home / "fleet.yaml"))
            with bench.serve() as pid:
                settled_s = settled(bench, pid, hosts)
                before = cpu_s(pid)
                changed = change(bench, share, hosts, cycles * INTERVAL_S)
                spent = (cpu_s(pid) - before) / cycles
                return {
                    "hosts": hosts, "settled_after_s": round(settled_s), "changed": changed,
                    "cpu_s_per_cycle": round(spent, 2), "rss_mib": rss_mib(pid),
                }  # fmt: skip
        finally:
            bench.run("sim", "down")


def main() -> None:
    parser = argparse.ArgumentParser(description="serve over large simulated fleets")
    parser.add_argument("--hosts", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--changing", type=float, default=0.0)
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    given = parser.parse_args()
    result = {
        "benchmark": "serve_scale", "interval_s": INTERVAL_S, "cpus": os.cpu_count(),
        "changing_a_minute": given.changing, "load_before": round(os.getloadavg()[0], 1),
        "fleets": [
            measure(given.tree.resolve(), hosts, given.cycles, given.changing)
            for hosts in given.hosts
        ],
    }  # fmt: skip
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

"""How long requests take at a steady rate: idle, and while `serve` works and 1,000 VMs are applied.

``python -m benchmarks.api_rate --hosts 1000 [--rate 300] [--seconds 60] [--json FILE]``: a fleet as
in ``commands.py`` with VMs, and `vgpumgr api` on it. Requests come by the clock, whether those
before them are answered or not: the map, the list of VMs, a VM, operations. How long one takes is
counted from when it was due; ``late`` are those for which no connection was free then.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.api_load import REQUESTS, Api, UnixHttp, served
from benchmarks.commands import VMS, World

CONNECTIONS = 64
LATE_S = 0.05


class SteadyRequests:
    """Requests at a rate, over connections of which each waits for its answer."""

    def __init__(self, api: Api, rate: float) -> None:
        self._api = api
        self._rate = rate
        self._due: queue.SimpleQueue[tuple[float, str] | None] = queue.SimpleQueue()
        self.took_ms: dict[str, list[float]] = {name: [] for name in REQUESTS}
        self.late = 0
        self.failed: list[str] = []

    def run(self, ended: threading.Event) -> None:
        """Until it is ended."""
        threads = [threading.Thread(target=self._answered) for _ in range(CONNECTIONS)]
        for each in threads:
            each.start()
        names, number, began = list(REQUESTS), 0, time.monotonic()
        while not ended.is_set():
            due = began + number / self._rate
            time.sleep(max(0.0, due - time.monotonic()))
            self._due.put((due, names[number % len(names)]))
            number += 1
        for _ in threads:
            self._due.put(None)
        for each in threads:
            each.join()

    def _answered(self) -> None:
        connection = UnixHttp(self._api.path)
        while (asked := self._due.get()) is not None:
            due, name = asked
            if time.monotonic() - due > LATE_S:
                self.late += 1
            try:
                self._api.get(connection, REQUESTS[name])
            except (OSError, SystemExit) as error:
                self.failed.append(f"{name}: {error}")
                connection = UnixHttp(self._api.path)
                continue
            self.took_ms[name].append((time.monotonic() - due) * 1000)

    def figures(self, seconds: float) -> dict[str, Any]:
        """What came of them in so many seconds."""
        every = sorted(took for each in self.took_ms.values() for took in each)
        return {
            "answered_a_second": round(len(every) / seconds, 1),
            "p50_ms": _share(every, 0.5),
            "p99_ms": _share(every, 0.99),
            "p99_ms_of": {name: _share(sorted(each), 0.99) for name, each in self.took_ms.items()},
            "late": self.late,
            "failed": len(self.failed),
            "first_failures": self.failed[:3],
            "load": [round(each, 1) for each in os.getloadavg()],
        }


def _share(values: list[float], share: float) -> float | None:
    return round(values[int((len(values) - 1) * share)], 2) if values else None


def idle(api: Api, rate: float, seconds: float) -> dict[str, Any]:
    """Nothing else happens."""
    ended = threading.Event()
    asked, began = SteadyRequests(api, rate), time.monotonic()
    timer = threading.Timer(seconds, ended.set)
    timer.start()
    asked.run(ended)
    return asked.figures(time.monotonic() - began)


def busy(api: Api, rate: float, world: World, vms: int, home: Path) -> dict[str, Any]:
    """`serve` works, and one command applies VMs: as long as that takes."""
    (home / "thousand.yaml").write_text(VMS.format(name="new", count=vms, profile="T4-1Q"))
    words = [sys.executable, "-m", "vgpumgr", "apply", "-f", "thousand.yaml"]
    ended = threading.Event()
    with world.served(), (home / "applied").open("w") as out:
        command = subprocess.Popen(
            words, env=world.environ, cwd=home, stdout=out, stderr=subprocess.STDOUT
        )

        def await_end() -> None:
            command.wait()
            ended.set()

        waits = threading.Thread(target=await_end)
        waits.start()
        asked, began = SteadyRequests(api, rate), time.monotonic()
        asked.run(ended)
        took_s = time.monotonic() - began
        waits.join()
    if command.returncode:
        raise SystemExit(f"apply ended with {command.returncode}: {home / 'applied'}")
    return {**asked.figures(took_s), "vms": vms, "apply_s": round(took_s, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--vms", type=int, default=400)
    parser.add_argument("--applied", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with served(given.hosts, given.vms) as (home, world, api):
        quiet = idle(api, given.rate, given.seconds)
        worked = busy(api, given.rate, world, given.applied, home)
    told = {
        "benchmark": "api_rate",
        "hosts": given.hosts,
        "vms": given.vms,
        "rate": given.rate,
        "cpus": os.cpu_count(),
        "idle": quiet,
        "serve_and_apply": worked,
        "p99_ratio": round(worked["p99_ms"] / quiet["p99_ms"], 2) if quiet["p99_ms"] else None,
    }
    text = json.dumps(told, indent=1)
    if given.json:
        given.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()

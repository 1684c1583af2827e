"""What requests over HTTP cost: CPU of the API's process a request, and how long they take.

``python benchmarks/api_load.py --hosts 1000 [--requests 300] [--listeners 200]``: a simulated fleet
as in ``commands.py``, with VMs, and `vgpumgr api` on it. Every kind of request is made over one
connection to the unix socket, one after the other; then the same while an operator's commands
change the ledger all the time, and while listeners follow the events. Prints JSON: milliseconds of
CPU (user and system, of the API's process and, for ``explain``, its workers) and of waiting.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.commands import World

TICK = os.sysconf("SC_CLK_TCK")
REQUESTS = {
    "map": "/v1/map",
    "vm list": "/v1/vms",
    "vm show": "/v1/vms/many-01",
    "operation list": "/v1/operations",
}


class UnixHttp(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("vgpumgr", timeout=600)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(600)
        self.sock.connect(str(self.path))


class Api:
    """A running API."""

    def __init__(self, world: World, home: Path) -> None:
        self.path = home / "state" / "api.sock"
        words = [sys.executable, "-m", "vgpumgr", "api"]
        self.process = subprocess.Popen(words, env=world.environ, stderr=subprocess.DEVNULL)
        while not self._answers():
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            self.get(UnixHttp(self.path), "/v1/operations")
        except OSError:
            return False
        return True

    def get(self, connection: UnixHttp, path: str) -> bytes:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != http.client.OK:
            raise SystemExit(f"{path}: {answer.status} {data[:500]!r}")
        return data

    def cpu_s(self) -> float:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICK

    def rss_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [each for each in status.splitlines() if each.startswith("VmRSS")]
        return round(int(line.split()[1]) / 1024, 1)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def measured(api: Api, path: str, count: int) -> dict[str, Any]:
    """Requests one after the other."""
    connection = UnixHttp(api.path)
    size = len(api.get(connection, path))
    before, times = api.cpu_s(), []
    for _ in range(count):
        began = time.perf_counter()
        api.get(connection, path)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return {
        "cpu_ms": round((api.cpu_s() - before) * 1000 / count, 2),
        "p50_ms": round(times[len(times) // 2], 2),
        "p99_ms": round(times[int(len(times) * 0.99)], 2),
        "bytes": size,
    }


@contextmanager
def changing(world: World) -> Iterator[None]:
    """While hosts are cordoned and taken again, as fast as commands come."""
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            world.cpu_s(["host", "cordon", "t4-1"])
            world.cpu_s(["host", "uncordon", "t4-1"])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def listening(api: Api, count: int) -> Iterator[None]:
    """With so many streams of events open."""
    connections = [UnixHttp(api.path) for _ in range(count)]
    try:
        for each in connections:
            each.request("GET", "/v1/events")
            each.getresponse()
        yield
    finally:
        for each in connections:
            each.close()


@contextmanager
def served(hosts: int, vms: int) -> Iterator[tuple[Path, World, Api]]:
    """An API over a fleet with VMs, and the folder that all is in."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench-") as folder:
        home = Path(folder)
        world = World(home, Path(__file__).parent.parent, hosts, vms)
        world.cpu_s(["sim", "up", "-f", "fleet.yaml"])
        try:
            world.cpu_s(["apply", "-f", "many.yaml"])
            api = Api(world, home)
            try:
                yield home, world, api
            finally:
                api.close()
        finally:
            world.cpu_s(["sim", "down"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--vms", type=int, default=400)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--listeners", type=int, default=200)
    given = parser.parse_args()
    with served(given.hosts, given.vms) as (_, world, api):
        quiet = {n: measured(api, p, given.requests) for n, p in REQUESTS.items()}
        with changing(world):
            changed = {n: measured(api, p, given.requests) for n, p in REQUESTS.items()}
        with listening(api, given.listeners):
            heard = {n: measured(api, p, given.requests) for n, p in REQUESTS.items()}
        told = {
            "benchmark": "api_load",
            "hosts": given.hosts,
            "vms": given.vms,
            "requests": given.requests,
            "cpus": os.cpu_count(),
            "load": os.getloadavg()[0],
            "quiet": quiet,
            "ledger_changes": changed,
            f"listeners_{given.listeners}": heard,
            "rss_mib": api.rss_mib(),
        }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()

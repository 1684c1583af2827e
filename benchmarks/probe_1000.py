"""CPU of a probe of a host that has not changed, in this process and over the fleet's socket.

``python benchmarks/probe_1000.py [--probes 1000]``: for each kind of host, milliseconds of the
controller's processor time per probe (``apart``: the simulated host is a process of its own, and
not counted), and of controller and simulated host together (``joined``); ``first`` is the first
probe, which reads everything.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from vgpumgr.model.codec import to_plain
from vgpumgr.model.host import HostRecord
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.sim_client import SimHosts
from vgpumgr.sim.sim_server import FLEET
from vgpumgr.sim.transport.fleet_socket import socket_path

KINDS = {
    "t4": SimBoard(board="T4", count=8),
    "a40": SimBoard(board="A40", count=8),
    "hgx": SimBoard(board="A100-SXM4-40GB", count=8),
}
HOSTS = tuple(SimHost(name=name, boards=(board,)) for name, board in KINDS.items())


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def per_call(act: Callable[[], object], times: int) -> float:
    before = spent()
    for _ in range(times):
        act()
    return round((spent() - before) / times * 1000, 3)


def measured(hosts: InProcessHosts | SimHosts, probes: int) -> dict[str, dict[str, float]]:
    found = {}
    for name in KINDS:
        host = hosts.open(HostRecord(name=name, address=f"sim://{name}"))
        first = per_call(host.probe, 1)
        until = time.monotonic() + 3
        while time.monotonic() < until:  # until what it tells has stood for a while
            host.probe()
        found[name] = {"first_ms": first, "unchanged_ms": per_call(host.probe, probes)}
    return found


def apart(probes: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        (state / FLEET).write_text(json.dumps(to_plain(SimFleet(name="bench", hosts=HOSTS))))
        server = subprocess.Popen([sys.executable, "-m", "vgpumgr.sim.sim_server", folder])
        try:
            while not socket_path(state).exists():
                time.sleep(0.05)
            return measured(SimHosts(state), probes)
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=1000)
    given = parser.parse_args()
    joined = measured(
        InProcessHosts(SimFleet(name="bench", hosts=HOSTS), clock=time.monotonic), given.probes
    )
    sys.stdout.write(json.dumps({"apart": apart(given.probes), "joined": joined}, indent=1) + "\n")


if __name__ == "__main__":
    main()

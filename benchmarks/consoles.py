"""Consoles through `vgpumgr api`: how soon a picture comes, and how soon after a key.

``python -m benchmarks.consoles [--vms 50] [--pictures 60] [--keys 200] [--idle 0]``: VMs of a
simulated host, whose screens speak real VNC. A picture: from the request for a ticket until the
whole screen (640 x 480) has come over the websocket. A key: from the press until a part of the
screen that it changes has come, with all consoles open. With ``--idle SECONDS`` all of them are
left alone so long, and must still show a picture. The viewers, the API and the host share the
processors, and there is no SSH in between. Prints JSON: milliseconds, and MB/s of one console.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.api_load import Api
from benchmarks.commands import World
from tests.vncviewer import Viewer
from vgpumgr.client.api_client import ApiClient, ServerAddress
from vgpumgr.endpoints.consoles import OPEN_CONSOLE

WIDTH, HEIGHT = 640, 480
PART = (WIDTH, 64)
EACH = 16
"""How many consoles one login may have open."""


def world_of(home: Path, vms: int) -> World:
    """One host with as many VMs as are wanted, each with a screen."""
    world = World(home, Path(__file__).parent.parent, 5, 1)
    host = {"name": "h1", "cpus": 256, "memory": "2TiB", "gpus": [{"board": "T4", "count": 1}]}
    fleet = {"apiVersion": "vgpumgr/v1", "kind": "Fleet", "name": "bench", "hosts": [host]}
    vm = {"apiVersion": "vgpumgr/v1", "kind": "VM", "name": "desk", "replicas": vms, "vcpus": 1}
    vm |= {"memory": "1GiB", "console": True}
    (home / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    (home / "many.yaml").write_text(yaml.safe_dump(vm))
    return world


def opened(client: ApiClient, name: str) -> Viewer:
    """A viewer that has shaken hands, and knows the screen."""
    item = client.call(OPEN_CONSOLE, OPEN_CONSOLE.asks(name=name)).answer
    viewer = Viewer("", client.console(item))
    viewer.greet()
    viewer.screen()
    return viewer


def spread(times: list[float]) -> dict[str, float]:
    """The middle, the slowest in a hundred, and the slowest; milliseconds of seconds."""
    times = sorted(1000 * each for each in times)
    return {
        "p50_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[int(len(times) * 0.99)], 1),
        "max_ms": round(times[-1], 1),
    }


def pictures(client: ApiClient, names: list[str], count: int) -> dict[str, float]:
    """From the request for a ticket to the whole screen."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        with opened(client, names[number % len(names)]) as viewer:
            viewer.picture(WIDTH, HEIGHT)
            times.append(time.perf_counter() - began)
    return spread(times)


def keys(viewers: list[Viewer], count: int) -> dict[str, float]:
    """From a key to what it changes, one console after the other while all are open."""
    times = []
    for number in range(count):
        viewer = viewers[number % len(viewers)]
        before = viewer.picture(*PART)
        began = time.perf_counter()
        viewer.press()
        while viewer.picture(*PART) == before:
            pass
        times.append(time.perf_counter() - began)
    return spread(times)


def megabytes_a_second(viewer: Viewer, seconds: float) -> float:
    """Whole screens, one after the other."""
    came, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        came += len(viewer.picture(WIDTH, HEIGHT))
    return round(came / (time.perf_counter() - began) / 1e6, 1)


def clients(world: World, path: Path, count: int) -> list[ApiClient]:
    """Logins enough for so many consoles at once."""
    found = []
    for number in range(-(-count // EACH)):
        name = f"viewer-{number}"
        world.cpu_s(["token", "create", name, "--role", "admin", "-o", "json"])
        token = json.loads(world.said)["secret"]
        found.append(ApiClient(ServerAddress(path=str(path), token=token)))
    return found


def measured(logins: list[ApiClient], given: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    client = logins[0]
    names = [f"desk-{number:02d}" for number in range(1, given.vms + 1)]
    found: dict[str, Any] = {"picture": pictures(client, names, given.pictures)}
    viewers = [opened(logins[n // EACH], name) for n, name in enumerate(names)]
    found[f"key_with_{given.vms}_open"] = keys(viewers, given.keys)
    found["mb_a_second"] = megabytes_a_second(viewers[0], 5.0)
    if given.idle:
        time.sleep(given.idle)
        alive = 0
        for viewer in viewers:
            try:
                alive += bool(viewer.picture(*PART))
            except (ConnectionError, OSError):
                continue
        found["idle"] = {"seconds": given.idle, "open": given.vms, "still_alive": alive}
    for viewer in viewers:
        viewer.socket.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vms", type=int, default=50)
    parser.add_argument("--pictures", type=int, default=60)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--idle", type=float, default=0.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench-") as folder:
        home = Path(folder)
        world = world_of(home, given.vms)
        world.cpu_s(["sim", "up", "-f", "fleet.yaml"])
        load = os.getloadavg()[0]
        try:
            world.cpu_s(["apply", "-f", "many.yaml"])
            api = Api(world, home)
            try:
                told = measured(clients(world, api.path, given.vms), given)
            finally:
                api.close()
        finally:
            world.cpu_s(["sim", "down"])
    facts = {"benchmark": "consoles", "vms": given.vms, "cpus": os.cpu_count(), "load": load}
    print(json.dumps({**facts, **told}, indent=2))


if __name__ == "__main__":
    sys.exit(main())

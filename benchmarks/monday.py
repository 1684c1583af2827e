"""A Monday morning: logins to a pool of desktops with `serve` and `api` at work, in real time.

``python benchmarks/monday.py [--hosts 4 --desktops 48 --logins 48 --over 40]``: a simulated fleet
(two T4 a host, 16 desktops), licence seats for exactly those desktops, a pool that would have more.
Users come within ``--over`` seconds, most in the middle; each asks over the API for a desktop and
then for a ticket to it. A first boot takes ``--boots`` seconds, and a desktop is ready when its
guest's checks are passed; three of a hundred desktops never are, and must be replaced. A few
desktops that no user has are switched off meanwhile. Once with spares, and once first come, first
served: a desktop is made when it is asked for. Prints JSON.

What is real: the processes, HTTP, the ledger, the simulator's own. What is not: Windows takes
minutes for its first boot; no viewer opens the websocket that the ticket is for.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.api_load import UnixHttp
from vgpumgr.model.errors import UsageError
from vgpumgr.sim.control import inject
from vgpumgr.spec.fields import replica_names

PER_HOST, TRIES_S, PATIENCE_S = 16, 0.25, 300.0
FLEET = """
apiVersion: vgpumgr/v1
kind: Fleet
name: monday
hosts:
  - {{name: vdi, count: {hosts}, cpus: 64, memory: 512GiB, gpus: [{{board: T4, count: 2}}],
      images: [win@1.qcow2]}}
"""
POOL = """
apiVersion: vgpumgr/v1
kind: Pool
name: desk
image: win@1
names: 'desk-{{n:4}}'
gpus: [{{profile: T4-2B}}]
vcpus: 2
memory: 4GiB
os: debian-12
guest: {{profiles: [docker]}}
autoheal: {{after: 5s}}
entitlement: {{groups: [staff]}}
min: {least}
spare: {spare}
max: {most}
"""


class Fleet:
    """A fleet that is up, with a controller and an API on it."""

    def __init__(self, home: Path, hosts: int) -> None:
        self._home = home
        (home / "fleet.yaml").write_text(FLEET.format(hosts=hosts))
        self.hosts = replica_names("vdi", hosts)
        tree = str(Path(__file__).resolve().parents[1])
        state = {"VGPUMGR_STATE_DIR": str(home / "state"), "PYTHONPATH": tree}
        self._environ = {**os.environ, **state}
        self.socket = home / "state" / "api.sock"
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, *words: str) -> str:
        """What a command prints, run to its end."""
        argv = [sys.executable, "-m", "vgpumgr", *words]
        ran = subprocess.run(argv, env=self._environ, cwd=self._home, capture_output=True)
        if ran.returncode:
            raise SystemExit(f"{' '.join(words)}: {ran.stdout!r} {ran.stderr!r}")
        return ran.stdout.decode()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """With `serve` and `api`."""
        said = (self._home / "said").open("wb")
        try:
            for words in (["serve", "--interval", "10"], ["api"]):
                argv = [sys.executable, "-m", "vgpumgr", *words]
                self._running.append(
                    subprocess.Popen(argv, env=self._environ, stdout=said, stderr=said)
                )
            until(lambda: self._answers(), 120, "the API to answer")
            yield
        finally:
            for each in self._running:
                each.terminate()
            for each in self._running:
                each.wait()
            said.close()

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/v1/hosts")[0] == http.client.OK
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
        """One request, by the account that runs this or by a token."""
        connection = UnixHttp(self.socket)
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def pool(self) -> dict[str, Any]:
        """As it is."""
        return dict(self.ask("GET", "/v1/pools/desk")[1])

    def spoilt(self, host: str, name: str) -> bool:
        """Have a desktop's guest fail; False where it does not run yet."""
        try:
            self.inject(host, "guest", name, "fails", "docker", "no daemon")
        except UsageError:
            return False
        return True

    def inject(self, host: str, *words: str) -> None:
        """Have a simulated host misbehave."""
        inject(self._home / "state" / "sim", host, words)

    def cpu_s(self) -> float:
        """Of `serve` and `api`, without the API's workers that have ended."""
        tick, total = os.sysconf("SC_CLK_TCK"), 0
        for each in self._running:
            stat = Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, stat[11:15]))
        return total / tick


def until(what: Any, within_s: float, why: str) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not what():
        if time.monotonic() - began > within_s:
            raise SystemExit(f"waited {within_s:g} s for {why}")
        time.sleep(1.0)
    return time.monotonic() - began


@dataclass
class Morning:
    """What was seen. ``idle_waits`` counts looks at which a user waited beside a free desktop."""

    connected_s: list[float] = field(default_factory=list)
    assigned_s: list[float] = field(default_factory=list)
    desktops: dict[str, str] = field(default_factory=dict)
    at_once: int = 0
    refused: list[str] = field(default_factory=list)
    seats_most: int = 0
    idle_waits: int = 0
    looks: int = 0
    replaced_s: list[float] = field(default_factory=list)
    never_ready: int = 0
    refilled_s: list[float] = field(default_factory=list)


def login(fleet: Fleet, user: str, token: str, at: float, seen: Morning) -> None:
    """One user: from the click until there is a ticket, by one of the front desk's logins."""
    time.sleep(max(0.0, at - time.monotonic()))
    began = time.monotonic()
    status, given = fleet.ask(
        "POST", "/v1/pools/desk:assign", {"user": user, "groups": ["staff"]}, token
    )
    if status != http.client.OK:
        seen.refused.append(f"{user}: {status} {given.get('message')}")
        return
    assigned = time.monotonic() - began
    while True:
        status, ticket = fleet.ask("POST", "/v1/pools/desk:connect", {"user": user}, token)
        if status == http.client.OK and ticket["protocol"]:
            break
        waits = given["desktop"] is None and status == http.client.CONFLICT
        if not waits or time.monotonic() - began > PATIENCE_S:
            seen.refused.append(f"{user}: ticket {status} {ticket.get('message')}")
            return
        time.sleep(TRIES_S)
    seen.at_once += given["desktop"] is not None
    seen.connected_s.append(time.monotonic() - began)
    if given["desktop"]:
        seen.assigned_s.append(assigned)
    seen.desktops[user] = ticket["desktop"]


def watch(fleet: Fleet, seen: Morning, ended: threading.Event) -> None:
    """Seats and waits, each second."""
    while not ended.wait(1.0):
        _, licences = fleet.ask("GET", "/v1/licences")
        used = next(each["used"] for each in licences["items"] if each["name"] == "vpc")
        seen.seats_most = max(seen.seats_most, used)
        found = fleet.pool()
        seen.looks += 1
        seen.idle_waits += bool(found["free"] and found["waiting"])


def switch_off(fleet: Fleet, count: int, seen: Morning, ended: threading.Event) -> None:
    """Desktops that no user has, one after the other: until each is ready again, or gone."""
    for _ in range(count):
        free = [e for e in fleet.pool()["items"] if e["state"] == "ready" and not e["user"]]
        if not free or ended.is_set():
            return
        it = free[-1]
        fleet.inject(it["host"], "destroy", it["name"])
        began, since = time.monotonic(), it["since"]

        def is_well(name: str = it["name"], since: str = since) -> bool:
            rows = [e for e in fleet.pool()["items"] if e["name"] == name]
            return not rows or (rows[0]["state"] == "ready" and rows[0]["since"] != since)

        until(is_well, PATIENCE_S, f"{it['name']} to be replaced")
        seen.replaced_s.append(time.monotonic() - began)


NEVER = 33
"""Of 33 desktops one never becomes ready: three of a hundred."""


def spoil(fleet: Fleet, seen: Morning, ended: threading.Event) -> None:
    """One desktop of 33 has a program that fails from its first boot on; how long until a desktop
    of its name is ready all the same, or the name is gone.
    """
    began: dict[str, float] = {}
    done: set[str] = set()
    while not ended.wait(2.0):
        for each in fleet.pool()["items"]:
            name = each["name"]
            if int(name.rpartition("-")[2]) % NEVER or name in done:
                continue
            if name in began and each["state"] == "ready":
                seen.refilled_s.append(time.monotonic() - began[name])
                done.add(name)
            fresh = name not in began and each["state"] == "creating" and each["host"]
            if fresh and fleet.spoilt(each["host"], name):
                began[name] = time.monotonic()
                seen.never_ready += 1


def morning(asked: argparse.Namespace, *, spares: bool) -> dict[str, Any]:
    """One arm on a fleet of its own."""
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="vgpumgr-monday-") as folder:
        home = Path(folder)
        fleet = Fleet(home, asked.hosts)
        fleet.run("sim", "up", "-f", "fleet.yaml")
        try:
            for host in fleet.hosts:
                fleet.inject(host, "guests", "boot", str(asked.boots))
            fleet.run("licence", "set", "vpc", "--seats", str(asked.desktops))
            least, spare = (asked.desktops * 3 // 4, asked.desktops // 4) if spares else (0, 0)
            pool = POOL.format(least=least, spare=spare, most=asked.desktops + 8)
            (home / "pool.yaml").write_text(pool)
            seen, ended = Morning(), threading.Event()
            with fleet.at_work():
                fleet.run("apply", "-f", "pool.yaml")
                spoiler = threading.Thread(target=spoil, args=(fleet, seen, ended))
                spoiler.start()
                try:
                    ready_s = until(
                        lambda: fleet.pool()["ready"] >= 0.9 * least, 900, "the desktops"
                    )
                    return {
                        "made_before_s": round(ready_s, 1),
                        **_logins(fleet, asked, chance, seen, ended),
                    }
                finally:
                    ended.set()
                    spoiler.join()
        finally:
            fleet.run("sim", "down")


REFILL_S = 200.0
"""So long is waited for desktops that never became ready to be replaced, after the last login."""
LOGINS = 16
"""A login may have 16 consoles open at a time, and no viewer opens these: they end after 30 s."""


def _logins(
    fleet: Fleet,
    asked: argparse.Namespace,
    chance: random.Random,
    seen: Morning,
    ended: threading.Event,
) -> dict[str, Any]:
    tokens = [
        fleet.ask("POST", "/v1/tokens", {"name": f"desk-{number}", "role": "admin"})[1]["secret"]
        for number in range(LOGINS)
    ]
    before = fleet.cpu_s()
    begin = time.monotonic() + 1.0
    times = sorted(chance.triangular(0, asked.over) for _ in range(asked.logins))
    watcher = threading.Thread(target=watch, args=(fleet, seen, ended))
    broken = max(1, asked.desktops * 3 // 100)
    breaker = threading.Thread(target=switch_off, args=(fleet, broken, seen, ended))
    watcher.start()
    breaker.start()
    with ThreadPoolExecutor(64) as users:
        for number, at in enumerate(times):
            token = tokens[number % len(tokens)]
            users.submit(login, fleet, f"user-{number:04d}", token, begin + at, seen)
    took = time.monotonic() - begin
    last = time.monotonic() + REFILL_S
    while len(seen.refilled_s) < seen.never_ready and time.monotonic() < last:
        time.sleep(1.0)
    ended.set()
    watcher.join()
    breaker.join()
    held = {each["user"]: each["name"] for each in fleet.pool()["items"] if each["user"]}
    return {
        "logins": asked.logins,
        "connected": len(seen.connected_s),
        "from_a_spare": seen.at_once,
        "refused": seen.refused[:5],
        "click_to_spare_s": _spread(seen.assigned_s),
        "click_to_ticket_s": _spread(seen.connected_s),
        "given_twice": len(seen.desktops) - len(set(seen.desktops.values())),
        "taken_from_users": sum(held.get(user) != name for user, name in seen.desktops.items()),
        "seats": asked.desktops,
        "seats_used_at_most": seen.seats_most,
        "looks_with_a_wait_and_a_free_desktop": f"{seen.idle_waits} of {seen.looks}",
        "never_ready": seen.never_ready,
        "refilled_within_s": _spread(seen.refilled_s),
        "switched_off": len(seen.replaced_s),
        "replaced_within_s": _spread(seen.replaced_s),
        "took_s": round(took, 1),
        "cpu_s_of_serve_and_api": round(fleet.cpu_s() - before, 1),
    }


def _spread(times: list[float]) -> dict[str, float]:
    if not times:
        return {}
    found = sorted(times)
    return {
        "p50": round(found[len(found) // 2], 2),
        "p99": round(found[min(len(found) - 1, int(len(found) * 0.99))], 2),
        "most": round(found[-1], 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hosts", type=int, default=4)
    options.add_argument("--desktops", type=int, default=48)
    options.add_argument("--logins", type=int, default=48)
    options.add_argument("--over", type=float, default=40.0, metavar="SECONDS")
    options.add_argument("--boots", type=int, default=20, metavar="SECONDS")
    options.add_argument("--seed", type=int, default=42)
    options.add_argument("--spares", action="store_true", help="without the second arm")
    options.add_argument("--json", type=Path, metavar="OUT")
    asked = options.parse_args()
    if asked.desktops > asked.hosts * PER_HOST:
        options.error(f"{asked.hosts} hosts have room for {asked.hosts * PER_HOST} desktops")
    result = {
        "benchmark": "monday",
        "hosts": asked.hosts,
        "desktops": asked.desktops,
        "over_s": asked.over,
        "first_boot_s": asked.boots,
        "cpus": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "spares": morning(asked, spares=True),
        **({} if asked.spares else {"first_come": morning(asked, spares=False)}),
        "load_after": round(os.getloadavg()[0], 1),
    }
    text = json.dumps(result, indent=2) + "\n"
    if asked.json:
        asked.json.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()

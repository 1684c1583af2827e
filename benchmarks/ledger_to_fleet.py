"""CPU from a ledger to a fleet to place on: in a fresh process, and again in the same one.

A small simulated fleet is looked at once; its rows are copied until there are as many hosts as
asked for. JSON on stdout, CPU seconds of this process; ``--hosts N …`` and ``--only KIND``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

FLEET = """
apiVersion: vgpumgr/v1
kind: Fleet
name: bench
hosts:
  - {name: t4, count: 2, cpus: 64, memory: 512GiB, gpus: [{board: T4, count: 8}]}
  - {name: a40, count: 3, cpus: 64, memory: 512GiB, gpus: [{board: A40, count: 8}]}
  - {name: hgx, count: 1, cpus: 192, memory: 2TiB, gpus: [{board: A100-SXM4-40GB, count: 8}]}
"""
LAYOUT = """
apiVersion: vgpumgr/v1
kind: Layout
name: bench
hosts: [a40-02, a40-03]
gpus: [{model: A40, vfs: max}]
"""
VMS = """
apiVersion: vgpumgr/v1
kind: VM
name: desk
replicas: 16
vcpus: 2
memory: 4GiB
gpus: [{profile: T4-4Q}]
disks: [{size: 20GiB}]
networks: [{network: default}]
---
apiVersion: vgpumgr/v1
kind: VM
name: work
replicas: 16
vcpus: 2
memory: 4GiB
gpus: [{profile: A40-8Q}]
disks: [{size: 20GiB}]
networks: [{network: default}]
"""
EMPTY = ("t4-01", "a40-02")
# Of ten hosts of a fleet so many are as each of the small one.
KINDS = {
    "empty": {"t4-01": 4, "a40-01": 4, "hgx-01": 2},
    "used": {"t4-01": 2, "t4-02": 2, "a40-01": 2, "a40-02": 1, "a40-03": 1, "hgx-01": 2},
}
ROUNDS = 3
# As the command line has it.
GARBAGE_EVERY = 100_000
# Tables whose rows are of a host, by the column that names it.
_TABLES = {"host": "name", "gpu": "host", "layout": "host", "vm": "host", "allocation": "host"}
_EVIDENCE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|gpu-[0-9a-f]{8}|132\d{10}"
)


def small_fleet(state: Path) -> Path:
    """A ledger of one host per kind; its path."""
    program = str(Path(sys.executable).parent / "vgpumgr")
    environ = {**os.environ, "VGPUMGR_STATE_DIR": str(state)}

    def run(*words: str, given: str = "") -> None:
        file = state.with_name("given.yaml")
        file.write_text(given)
        named = [str(file) if word == "FILE" else word for word in words]
        subprocess.run([program, *named], env=environ, check=True, capture_output=True)

    try:
        run("sim", "up", "-f", "FILE", given=FLEET)
        run("layout", "apply", "-f", "FILE", "-y", given=LAYOUT)
        run("host", "cordon", *EMPTY)
        run("apply", "-f", "FILE", given=VMS)
        run("host", "uncordon", *EMPTY)
        run("host", "list", "--refresh")
    finally:
        run("sim", "down")
    return state / "ledger.sqlite"


def copied(ledger: Path, small: Path, shares: dict[str, int], hosts: int) -> None:
    """A ledger of so many hosts at ``ledger``."""
    with closing(sqlite3.connect(small)) as source, closing(sqlite3.connect(ledger)) as made:
        source.backup(made)
        made.execute("PRAGMA foreign_keys = OFF")
        for table in ("unit", *_TABLES):
            made.execute(f"DELETE FROM {table}")
        order = [name for name, share in shares.items() for _ in range(share)]
        for number in range(hosts):
            for table, column in _TABLES.items():
                _copy(source, made, table, column, order[number % len(order)], number)
        made.commit()
    ledger.chmod(0o600)


def _copy(source: Any, made: Any, table: str, column: str, host: str, number: int) -> None:
    """The host's rows once more, under names and evidence of their own."""

    def renamed(value: object) -> object:
        if not isinstance(value, str):
            return value
        text = _EVIDENCE.sub(lambda found: _other(found[0], number), value)
        return re.sub(rf"\b({host}|desk-\d\d|work-\d\d)\b", rf"\1-{number:05}", text)

    cursor = source.execute(f"SELECT * FROM {table} WHERE {column} = ?", (host,))
    names = [each[0] for each in cursor.description]
    for row in cursor.fetchall():
        values = {name: renamed(value) for name, value in zip(names, row, strict=True)}
        if isinstance(values.get("id"), int):
            del values["id"]
        marks = ", ".join("?" * len(values))
        into = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
        made.execute(into, list(values.values()))


def _other(evidence: str, number: int) -> str:
    """Evidence of the same form that no other copy has."""
    found = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{evidence} {number}"))
    if evidence.startswith("gpu-"):
        return f"gpu-{found[:8]}"
    return f"132{int(found[:8], 16):010}" if evidence.isdigit() else found


@contextmanager
def timed(found: dict[str, float], name: str) -> Iterator[None]:
    """CPU seconds of the block, the least of those under one name."""
    before = _cpu()
    yield
    found[name] = min(found.get(name, 1e9), round(_cpu() - before, 4))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(path: Path) -> dict[str, Any]:
    """Reading and building in this process, first and again."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import observed_domains, read_view
    from vgpumgr.model.vm import PlacementPolicy
    from vgpumgr.placement.placer import Placer
    from vgpumgr.store import open_ledger

    gc.set_threshold(GARBAGE_EVERY)
    ledger = open_ledger(path)
    found: dict[str, float] = {}

    def fleet_of(when: str) -> Any:
        """With a second read of hosts and GPUs, as a command has it that looks at its hosts."""
        with timed(found, f"{when}_s"):
            with timed(found, f"{when}_hosts_s"):
                ledger.hosts()
            with timed(found, f"{when}_gpus_s"):
                ledger.gpus()
            with timed(found, f"{when}_view_s"):
                view = read_view(ledger)
            with timed(found, f"{when}_fleet_s"):
                fleet = build_fleet(view)
            with timed(found, f"{when}_domains_s"):
                observed_domains(view)
            with timed(found, f"{when}_placer_s"):
                Placer(fleet, PlacementPolicy.BREADTH_FIRST)
        return fleet

    first = fleet_of("cold")
    again = [fleet_of("warm") for _ in range(ROUNDS)][-1]
    same = sum(a is b for a, b in zip(first.hosts, again.hosts, strict=True))
    ledger.close()
    return {
        **found,
        "same_supplies": same,
        "ledger_mib": round(path.stat().st_size / 2**20, 1),
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, nargs="+", default=[100, 1000, 3000])
    parser.add_argument("--only", choices=[*KINDS, ""], default="")
    parser.add_argument("--ledger", type=Path, help="measure this one, in this process")
    given = parser.parse_args()
    if given.ledger:
        print(json.dumps(measure(given.ledger)))
        return
    results: dict[str, Any] = {"benchmark": "ledger_to_fleet", "gpus_per_host": 8}
    with tempfile.TemporaryDirectory() as folder:
        small = small_fleet(Path(folder) / "state")
        for kind, hosts in ((k, n) for k in KINDS if given.only in {"", k} for n in given.hosts):
            ledger = Path(folder) / f"{kind}-{hosts}.sqlite"
            copied(ledger, small, KINDS[kind], hosts)
            argv = [sys.executable, __file__, "--ledger", str(ledger)]
            said = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
            results[f"{kind}, {hosts} hosts"] = json.loads(said.stdout)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

"""``make race``: 64 clients for the last slice, 10,000 rounds, on both stores; build/race.json.

Both stores at once: while SQLite's clients sleep for its lock, PostgreSQL's have the processor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from tests import pgserver
from tests.pgserver import PgServer
from tests.race.applying import Applying
from tests.race.reserving import Reserving
from tests.race.rounds import race
from tests.race.seen import Report, sound

OUT = Path("build/race.json")


def main() -> int:
    """Exit status 1 unless every round that ran has one winner."""
    parser = argparse.ArgumentParser(prog="python -m tests.race", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=25.0, help="the longest, for each store")
    parser.add_argument("--applies", type=int, default=50, help="rounds of whole applies")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    stores = asked.store or ["sqlite", "postgresql"]
    reports: dict[str, dict[str, Report]] = {}
    asked.out.parent.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        _server(asked.clients) as server,
        ThreadPoolExecutor(len(stores)) as side_by_side,
    ):
        running = {
            side_by_side.submit(_on, _grounds(store, folder, server), asked): store
            for store in stores
        }
        for ended in as_completed(running):
            store = running[ended]
            reports[store] = ended.result()
            print(json.dumps({store: reports[store]}, indent=1), flush=True)
            asked.out.write_text(json.dumps(reports, indent=1) + "\n")
    return int(not all(sound(each) for kinds in reports.values() for each in kinds.values()))


def _grounds(store: str, folder: str, server: PgServer) -> dict[str, str]:
    """A ledger's address for each kind of race."""
    kinds = ("reserve", "apply")
    return {
        kind: server.database() if store == "postgresql" else f"{folder}/{kind}.db"
        for kind in kinds
    }


def _on(where: dict[str, str], asked: argparse.Namespace) -> dict[str, Report]:
    longest = {"clients": asked.clients, "longest_s": 60 * asked.minutes}
    return {
        "reserve": race(Reserving, where["reserve"], rounds=asked.rounds, **longest),
        "apply": race(Applying, where["apply"], rounds=asked.applies, **longest),
    }


@contextmanager
def _server(clients: int) -> Iterator[PgServer]:
    """One that takes as many connections: each client has some for reading, writing, claims."""
    with pgserver.running() as server:
        server.sql(f"ALTER SYSTEM SET max_connections = {4 * clients + 20}")
        server.stop()
        server.start()
        yield server


if __name__ == "__main__":
    raise SystemExit(main())

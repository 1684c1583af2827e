"""``make race``: 64 clients for the last slice, 10,000 rounds, on both stores; build/race.json."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests import pgserver
from tests.race.applies import applies
from tests.race.rounds import Report, race, sound

OUT = Path("build/race.json")


def main() -> int:
    """Exit status 1 unless every round has one winner."""
    parser = argparse.ArgumentParser(prog="python -m tests.race", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--applies", type=int, default=50, help="rounds of whole applies")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    shape = {"processes": asked.processes, "threads": asked.threads}
    reports: dict[str, dict[str, Report]] = {}
    asked.out.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, pgserver.running() as server:
        for store in asked.store or ["sqlite", "postgresql"]:
            here = {
                what: server.database() if store == "postgresql" else f"{folder}/{what}.db"
                for what in ("reserve", "apply")
            }
            reports[store] = {
                "reserve": race(here["reserve"], rounds=asked.rounds, **shape),
                "apply": applies(here["apply"], rounds=asked.applies, **shape),
            }
            print(json.dumps({store: reports[store]}, indent=1), flush=True)
            asked.out.write_text(json.dumps(reports, indent=1) + "\n")
    return int(
        not all(sound(each["reserve"]) and sound(each["apply"]) for each in reports.values())
    )


if __name__ == "__main__":
    raise SystemExit(main())

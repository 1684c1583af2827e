"""``make guards``: every guard alone, and without it; a table, and build/guards.json."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests import pgserver
from tests.guards.every import CASES, SQLITE
from tests.guards.registry import Guard, Place, holds, holds_without

OUT = Path("build/guards.json")


def tried(guard: Guard, place: Callable[[], Place]) -> dict[str, object]:
    """What both runs of a scenario came to."""
    began = time.monotonic()
    alone, without = holds(guard, place()), holds_without(guard, place())
    return {
        "guard": guard.name,
        "where": guard.where,
        "prevents": guard.bad,
        "holds_alone": alone,
        "red_without": not without,
        "seconds": round(time.monotonic() - began, 2),
    }


def main() -> int:
    """Exit status 1 when a guard does not hold, or is not needed."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, pgserver.running() as server:
        for guard, store in CASES:

            def place(store: str = store) -> Place:
                own = Path(tempfile.mkdtemp(dir=folder))
                at = str(own / "ledger.db") if store == SQLITE else server.database()
                return Place(own, at)

            row = {"store": store, **tried(guard, place)}
            rows.append(row)
            print(
                f"{guard.name:28} {store:11} {'holds' if row['holds_alone'] else 'FAILS':6}"
                f" {'red without' if row['red_without'] else 'NOT NEEDED':12} {guard.bad}",
                flush=True,
            )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"guards": rows}, indent=1) + "\n")
    killed = sum(bool(row["holds_alone"] and row["red_without"]) for row in rows)
    print(f"{killed} of {len(rows)} guards hold alone and are missed when they are gone")
    return int(killed != len(rows))


if __name__ == "__main__":
    raise SystemExit(main())

"""Boots guests one after the other and tells how each ended.

``python -m tests.guests [12:docker …] [--json FILE]``, as root.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.guests.guest_cells import CELLS, SECRETS, Cell
from tests.guests.guest_world import RELEASES, GuestWorld, guest_world, missing


def boot(world: GuestWorld, release: str, cell: Cell) -> dict[str, object]:
    """One guest from its file to its end, then gone."""
    name = f"{cell.name}-{release}"
    began = time.monotonic()
    world.apply(world.document(name, release, *cell.profiles, **cell.more))
    made_s = time.monotonic() - began
    end = world.ended(name)
    left = world.in_seed(name)
    world.cli.ok("vm", "delete", name, "-y", "--force")
    row = {
        "release": release,
        "cell": cell.name,
        "as_meant": cell.is_as_meant(end) and (end.phase != "ready" or left == []),
        "phase": end.phase,
        "why": end.why,
        "made_s": round(made_s),
        "agent_s": round(end.agent_s),
        "ended_s": round(end.ended_s),
        "secrets_left_in_seed": left,
    }
    print(json.dumps(row), file=sys.stderr, flush=True)
    return {**row, "seen": asdict(end)["seen"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", help="RELEASE:CELL; all where there is none")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if why := missing():
        print(why, file=sys.stderr)
        return 2
    every = [f"{release}:{name}" for release in RELEASES for name in CELLS]
    chosen = asked.cells or every
    rows: list[dict[str, object]] = []
    with guest_world(*sorted({each.partition(":")[0] for each in chosen})) as world:
        world.secrets(SECRETS)
        for each in chosen:
            release, _, name = each.partition(":")
            rows.append(boot(world, release, CELLS[name]))
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["as_meant"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

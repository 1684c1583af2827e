"""``python -m tests.hostile --seed 1 --minutes 30``: lies told, faults found, what it cost."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tests.hostile.trials import TRIALS, run
from tests.hostile.world import Tally, peak_mib


def main() -> int:
    """Exit 1 where anything was a fault of ours."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0)
    names = [each.name for each in TRIALS]
    parser.add_argument("--only", nargs="*", choices=names, default=[], metavar="TRIAL")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    given = parser.parse_args()
    before = peak_mib()
    tally = run(given.seed, given.minutes, given.only, weigh=True)
    figures = report(tally) | {"seed": given.seed, "peak_mib": [round(before), round(peak_mib())]}
    print(json.dumps(figures, indent=2))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    for each in tally.faults:
        print(json.dumps(each), file=sys.stderr)
    return 1 if tally.faults else 0


def report(tally: Tally) -> dict[str, Any]:
    """The figures: CPU seconds of each command under lies beside the truth's."""
    return {
        "possible": tally.possible,
        "mutations": tally.mutations,
        "fields": len(tally.fields),
        "least_per_field": min(tally.fields.values(), default=0),
        "met_an_error": tally.refused,
        "commands": tally.commands,
        "faults": len(tally.faults),
        "processes": {
            name: [round(each, 2) for each in of] for name, of in tally.processes.items()
        },
        "cpu_s": {
            name: {
                "clean": _seconds(tally.clean_s.get(name, [])),
                "lied": _seconds(lied),
            }
            for name, lied in sorted(tally.lied_s.items())
        },
    }


def _seconds(found: list[float]) -> dict[str, float]:
    if not found:
        return {}
    return {"median": round(statistics.median(found), 4), "most": round(max(found), 4)}


if __name__ == "__main__":
    sys.exit(main())

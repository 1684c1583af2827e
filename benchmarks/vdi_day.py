"""A working day of 2,000 desktops in 5 pools on virtual time, under the product's pool controller
and first come, first served without spares; JSON out.

python -m benchmarks.vdi_day --seed 42 --json OUT

Logon storm at 8:30, lunch, logoffs; at noon a bad image is pushed to the largest pool, at 14:00 a
host is lost. What is measured is described in benchmarks/vdi/figures.py, the fleet in scene.py,
what users do in script.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.vdi.baseline import FirstCome
from benchmarks.vdi.ours import Controller
from benchmarks.vdi.run import day
from benchmarks.vdi.scene import pools


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    args = _parser().parse_args(argv)
    report = {arm.name: day(arm, pools(), args.seed) for arm in (Controller, FirstCome)}
    text = json.dumps(report, indent=2) + "\n"
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="python -m benchmarks.vdi_day",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("--seed", type=int, default=42)
    words.add_argument("--json", type=Path, metavar="OUT")
    return words


if __name__ == "__main__":
    sys.exit(main())

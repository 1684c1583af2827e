"""The words of the command, read and checked."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.placement.policies import DEFAULT, NAMES
from benchmarks.placement.run import WORKERS
from benchmarks.placement.summary import DATA
from benchmarks.placement.variant import PLAIN, Variant


def parser(about: str | None) -> argparse.ArgumentParser:
    """What the command understands."""
    words = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("--workload", nargs="+", required=True, metavar="FILE")
    words.add_argument("--hosts", type=Path, default=DATA / "openb_node_list_gpu_node.csv.gz")
    words.add_argument("--seeds", type=typed(seeds), default=(42,), help="42-46, or 42,44")
    words.add_argument("--history", nargs="+", type=typed(_share), default=[0.2], metavar="SHARE",
                        help="of the file's tasks that the plan may know (0.2)")  # fmt: skip
    words.add_argument("--variant", nargs="+", type=typed(Variant.parse), default=[PLAIN],
                        help="plain, windows:SIZE, departures[:LOAD]")  # fmt: skip
    words.add_argument("--policies", type=typed(_policies), default=DEFAULT,
                        help=f"of {', '.join(NAMES)}")  # fmt: skip
    words.add_argument("--no-bound", action="store_true", help="leave the bounds out")
    words.add_argument("--traces", type=Path, metavar="DIR", help="a folder with more workloads")
    words.add_argument("--workers", type=typed(count), default=WORKERS,
                        help=f"processes ({WORKERS})")  # fmt: skip
    words.add_argument("--json", type=Path, required=True, metavar="OUT")
    words.add_argument("--resume", action="store_true", help="run only what OUT does not have")
    words.add_argument("--report", type=Path, metavar="DIR", help="a page named as OUT, and charts")
    return words


def typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """argparse shows the message of a ValueError only if it is of its own kind."""

    def parse(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def seeds(text: str) -> tuple[int, ...]:
    """As ``42-46`` or ``42,44``; raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise ValueError(f"{text!r} is not like 42-46 or 42,44")
        if last and int(last) < int(first):
            raise ValueError(f"{text!r}: {last} is before {first}")
        found += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(found))


def count(text: str) -> int:
    """A whole number above 0; raises ValueError."""
    if not text.isdigit() or not int(text):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"{text} is not between 0 and 1")
    return share


def _policies(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"no policy {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names

"""All experiments on openb, one after the other: a JSON, a page and charts each, ``targets.md``.

python -m benchmarks.placement.suite --out DIR [--full] [--only inflation,windows,…]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.placement import targets
from benchmarks.placement.__main__ import main
from benchmarks.placement.policies import ANEW, DEFAULT

QUICK = ("default", "cpu250", "gpushare60", "gpuspec20")
FULL = (
    *("default", "cpu037", "cpu050", "cpu072", "cpu100", "cpu200", "cpu235", "cpu250", "cpu300"),
    *("gpushare60", "gpuspec20", "multigpu30"),
)
BULK = ("vgpumgr", "vgpumgr-bulk", "fgd", "bestfit")
INGREDIENTS = (
    ANEW,
    *("fgd", "fgd-unrounded", "fgd-best-fit", "vgpumgr-no-mix", "vgpumgr-no-plan"),
    *("vgpumgr-no-quotas", "vgpumgr-no-prices", "vgpumgr-no-learning", "vgpumgr"),
)

Words = tuple[str, ...]


def experiments(*, full: bool) -> dict[str, Words]:
    """The words of the command by experiment; ``full`` has more workloads and seeds.

    Without it all of them take a quarter of an hour on two cores.
    """
    many, some, few = ("42-51", "42-46", "42-44") if full else ("42-46", "42", "42")
    return {
        "inflation": _words(FULL if full else QUICK, many, DEFAULT),
        "windows": _words(
            ("default",), many if full else some, BULK,
            "--variant", "windows:50", "windows:200", "windows:1000", "--no-bound",
        ),
        "history": _words(
            ("default",), some, ("vgpumgr", "fgd"),
            "--history", "0.2", "0.05", "0.02", "0", "--no-bound",
        ),
        "departures": _words(
            ("default",), some, (ANEW, *DEFAULT) if full else DEFAULT,
            "--variant", "departures:0.8", "departures:0.9", "departures:1.0",
        ),
        "ablation": _words(("default", "gpuspec20"), few, INGREDIENTS, "--no-bound"),
    }  # fmt: skip


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status: that of the first experiment that fails."""
    args = _parser().parse_args(argv)
    for name, words in experiments(full=args.full).items():
        if name not in args.only:
            continue
        print(f"== {name}", file=sys.stderr)
        out = ("--json", str(args.out / f"{name}.json"), "--report", str(args.out))
        status = main([*words, *out, *args.more])
        if status:
            return status
    text = "\n".join(["# Targets", "", *targets.page(args.out)]) + "\n"
    (args.out / "targets.md").write_text(text, encoding="utf-8")
    return 0


def _words(workloads: Words, seeds: str, policies: Words, *more: str) -> Words:
    return ("--workload", *workloads, "--seeds", seeds, "--policies", ",".join(policies), *more)


def _parser() -> argparse.ArgumentParser:
    names = tuple(experiments(full=False))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--full", action="store_true", help="more workloads, more seeds")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("more", nargs="*", help="after --: words for each command")
    return parser


if __name__ == "__main__":
    sys.exit(run())

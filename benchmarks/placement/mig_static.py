"""100 GPUs in MIG, filled until 130 % of them have been asked for; nothing leaves. JSON out.

python -m benchmarks.placement.mig_static --seeds 42-46 --json OUT

Beside each policy, which must take what fits, the optimum that may leave out what it likes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.document import text
from benchmarks.placement.mig import MIG
from benchmarks.placement.options import count, seeds, typed
from benchmarks.placement.paired import paired, shown
from benchmarks.placement.pools.boards import mig_board
from benchmarks.placement.pools.bound import contents
from benchmarks.placement.pools.checker import check
from benchmarks.placement.pools.experiment import FREE
from benchmarks.placement.pools.optimum import drawn, most_held
from benchmarks.placement.tables import table

FULL = 1.3
POLICIES = tuple(name for name in MIG.policies if "move" not in name and name != FREE)

Results = list[dict[str, Any]]


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 where the JSON cannot be written."""
    args = _parser().parse_args(argv)
    results: Results = []
    for mix in args.mix:
        for seed in args.seeds:
            print(f"{mix} {seed}", file=sys.stderr)
            results += filled(mix, seed, args.gpus)
    print("\n".join(report(results)))
    if args.json:
        try:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            document = {"gpus": args.gpus, "results": results}
            args.json.write_text(text(document), encoding="utf-8")
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    return 0


def filled(mix: str, seed: int, gpus: int) -> Results:
    """Every policy on one sequence; raises ``InvalidPlacement``."""
    board = mig_board()
    units = gpus * board.whole
    asked = drawn(board.shares(mix), board.sizes, FULL * units, seed)
    offered = (asked[:, None] == range(len(board.sizes))).sum(axis=0)
    most = most_held(contents(board.space), gpus, board.sizes, offered)
    found = []
    for policy in POLICIES:
        pool = MIG.policies[policy].pool(mig_board, mix, gpus)
        taken = [pool.accept(number, part) for number, part in enumerate(asked.tolist())]
        check(board, pool.held())
        refused = taken.index(False) if not all(taken) else None
        before = board.sizes[asked[:refused]].sum() if refused is not None else None
        found.append({
            "mix": mix, "seed": seed, "policy": policy,
            "alloc_pct": round(100 * float(board.sizes[asked[taken]].sum()) / units, 4),
            "first_refusal_pct": None if before is None else round(100 * float(before) / units, 4),
            "optimum_pct": round(100 * most / units, 4),
        })  # fmt: skip
    return found


def report(results: Results) -> Iterator[str]:
    """A table in Markdown."""
    head = ["mix", "policy", "allocated, %", f"against {MIG.base}", "optimum, %", "first refusal"]
    yield from table(head, _lines(results))


def _lines(results: Results) -> Iterator[list[str]]:
    base = {(r["mix"], r["seed"]): r["alloc_pct"] for r in results if r["policy"] == MIG.base}
    for mix, policy in dict.fromkeys((r["mix"], r["policy"]) for r in results):
        mine = [r for r in results if (r["mix"], r["policy"]) == (mix, policy)]
        apart = paired([r["alloc_pct"] - base[r["mix"], r["seed"]] for r in mine])
        first = [r["first_refusal_pct"] for r in mine if r["first_refusal_pct"] is not None]
        yield [
            mix,
            policy,
            f"{statistics.fmean(r['alloc_pct'] for r in mine):.2f}",
            shown(apart),
            f"{statistics.fmean(r['optimum_pct'] for r in mine):.2f}",
            f"{statistics.fmean(first):.2f}" if first else "",
        ]


def _parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="python -m benchmarks.placement.mig_static",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    words.add_argument("--mix", nargs="+", choices=list(mig_board().mixes), default=MIG.mixes)
    words.add_argument("--seeds", type=typed(seeds), default=seeds("42-46"), help="42-46, or 42,44")
    words.add_argument("--gpus", type=typed(count), default=MIG.gpus)
    words.add_argument("--json", type=Path, metavar="OUT")
    return words


if __name__ == "__main__":
    sys.exit(run())

"""A pool of 100 GPUs in MIG under arrivals and departures; JSON out.

python -m benchmarks.placement.mig --load 0.85 1.0 1.2 --seeds 42-46 --json OUT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.placement.pools.boards import mig_board
from benchmarks.placement.pools.bound import free_migration
from benchmarks.placement.pools.command import main
from benchmarks.placement.pools.experiment import FREE, Experiment
from benchmarks.placement.pools.policies import Budget, Table, Unbounded
from benchmarks.placement.pools.product import OnPlacer

SHARE, SAVED = 0.045, 50.0
"""Moves per VM accepted, and what of them may be kept: below 1 in 20 in all over 60 lifetimes."""

HALF_A_GPU = 500.0

MIG = Experiment(
    name="mig",
    board=mig_board,
    policies={
        "vgpumgr": OnPlacer(),
        "vgpumgr-no-values": OnPlacer(values=False),
        "first-fit": Table("first-fit"),
        "round-robin": Table("first-fit", turns=True),
        "best-fit": Table("best-fit"),
        "worst-fit": Table("breadth-first"),
        "capability": Table("capability"),
        "fgd-uniform": Table("fgd-uniform"),
        "fgd-mix": Table("fgd-mix"),
        "values": Table("values"),
        "fgd-uniform + 1 move": Table("fgd-uniform", Budget(1, SHARE, SAVED)),
        "values + 1 move": Table("values", Budget(1, SHARE, SAVED)),
        "values + 3 moves": Table("values", Budget(3, SHARE, SAVED, price=HALF_A_GPU)),
        FREE: Unbounded(free_migration),
    },
    base="fgd-uniform",
    gpus=100,
    bound=free_migration,
    warm=10.0,
    lasting=60.0,
    mixes=("uniform", "skew-small", "skew-big", "bimodal"),
    loads=(0.85, 1.0, 1.2),
)


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return main(MIG, argv, __doc__)


if __name__ == "__main__":
    sys.exit(run())

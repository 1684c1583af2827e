"""A pool of 100 GPUs in MIG under arrivals and departures; JSON out.

python -m benchmarks.placement.mig --load 0.85 1.0 1.2 --seeds 42-46 --json OUT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.placement.pools.boards import mig_board
from benchmarks.placement.pools.bound import FreeMigration
from benchmarks.placement.pools.experiment import ROUND_ROBIN, Experiment, main
from benchmarks.placement.pools.policies import Budget

ONE_IN_TWENTY = 0.05
HALF_A_GPU = 500.0

MIG = Experiment(
    board=mig_board,
    policies={
        "first-fit": ("first-fit", None),
        ROUND_ROBIN: ("first-fit", None),
        "best-fit": ("best-fit", None),
        "worst-fit": ("breadth-first", None),
        "capability": ("capability", None),
        "depth-first": ("depth-first", None),
        "fgd-uniform": ("fgd-uniform", None),
        "fgd-mix": ("fgd-mix", None),
        "least-fragmentation": ("least-fragmentation", None),
        "values": ("values", None),
        "fgd-uniform + 1 move": ("fgd-uniform", Budget(1, ONE_IN_TWENTY, saved=50)),
        "values + 1 move": ("values", Budget(1, ONE_IN_TWENTY, saved=50)),
        "values + 3 moves": ("values", Budget(3, ONE_IN_TWENTY, saved=50, price=HALF_A_GPU)),
    },
    base="fgd-uniform",
    gpus=100,
    bound=FreeMigration,
    warm=10.0,
    lasting=60.0,
    mixes=("uniform", "skew-small", "skew-big", "bimodal"),
)


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return main(MIG, argv, __doc__)


if __name__ == "__main__":
    sys.exit(run())

"""A pool of 128 GPUs of 48 GB for desktops, one size per GPU; JSON out.

python -m benchmarks.placement.vdi --load 0.85 0.95 --seeds 42-46 --json OUT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.placement.pools.boards import vdi_board
from benchmarks.placement.pools.bound import SameSize
from benchmarks.placement.pools.experiment import Experiment, main
from benchmarks.placement.pools.policies import Budget

THREE_PERCENT = 0.03

VDI = Experiment(
    board=vdi_board,
    policies={
        "first-fit": ("first-fit", None),
        "breadth-first": ("breadth-first", None),
        "depth-first": ("depth-first", None),
        "fgd-mix": ("fgd-mix", None),
        "least-fragmentation": ("least-fragmentation", None),
        "values": ("values", None),
        "depth-first + 4 moves": ("depth-first", Budget(4, THREE_PERCENT)),
        "least-fragmentation + 4 moves": ("least-fragmentation", Budget(4, THREE_PERCENT)),
    },
    base="depth-first",
    gpus=128,
    bound=SameSize,
    warm=4.0,
    lasting=20.0,
    mixes=("office", "design", "ai"),
)


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return main(VDI, argv, __doc__)


if __name__ == "__main__":
    sys.exit(run())

"""A pool of 128 GPUs of 48 GB for desktops, one size per GPU; JSON out.

python -m benchmarks.placement.vdi --load 0.85 0.95 --seeds 42-46 --json OUT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.placement.pools.boards import vdi_board
from benchmarks.placement.pools.bound import same_size
from benchmarks.placement.pools.command import main
from benchmarks.placement.pools.experiment import FREE, Experiment
from benchmarks.placement.pools.policies import Budget, Table, Unbounded
from benchmarks.placement.pools.product import OnPlacer
from vgpumgr.model.vm import PlacementPolicy

PER_HOST = 8
SHARE, SAVED = 0.025, 30.0
"""Moves per desktop accepted, and what of them may be kept: below 3 % in all over 20 lifetimes."""

VDI = Experiment(
    name="vdi",
    board=vdi_board,
    policies={
        "vgpumgr": OnPlacer(per_host=PER_HOST),
        "vgpumgr-depth-first": OnPlacer(PlacementPolicy.DEPTH_FIRST, per_host=PER_HOST),
        "first-fit": Table("first-fit"),
        "breadth-first": Table("breadth-first"),
        "depth-first": Table("depth-first"),
        "fgd-mix": Table("fgd-mix"),
        "values": Table("values"),
        "depth-first + 4 moves": Table("depth-first", Budget(4, SHARE, SAVED)),
        "least-fragmentation + 4 moves": Table("least-fragmentation", Budget(4, SHARE, SAVED)),
        "least-fragmentation + 8 moves": Table("least-fragmentation", Budget(8, SHARE, SAVED)),
        FREE: Unbounded(same_size),
    },
    base="depth-first",
    gpus=128,
    bound=same_size,
    warm=4.0,
    lasting=20.0,
    mixes=("office", "design", "ai"),
    loads=(0.85, 0.95),
)


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return main(VDI, argv, __doc__)


if __name__ == "__main__":
    sys.exit(run())

"""The same desktops on 128 L40S in mixed-size mode, each type at its placement ids; JSON out.

python -m benchmarks.placement.vdi_mixed --load 0.85 0.95 --seeds 42-46 --json OUT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.placement.pools.boards import mixed_board
from benchmarks.placement.pools.bound import mixed_size
from benchmarks.placement.pools.command import main
from benchmarks.placement.pools.experiment import FREE, Experiment
from benchmarks.placement.pools.mixed import RULES, ByMask
from benchmarks.placement.pools.moving import Moving
from benchmarks.placement.pools.policies import Budget, Unbounded
from benchmarks.placement.pools.product import OnPlacer
from benchmarks.placement.vdi import PER_HOST, SAVED, SHARE
from vgpumgr.model.vm import PlacementPolicy

VDI_MIXED = Experiment(
    name="vdi_mixed",
    board=mixed_board,
    policies={
        "vgpumgr": OnPlacer(per_host=PER_HOST),
        "vgpumgr-depth-first": OnPlacer(PlacementPolicy.DEPTH_FIRST, per_host=PER_HOST),
        "vgpumgr + 4 moves": Moving(Budget(4, SHARE, SAVED), per_host=PER_HOST),
        **{rule: ByMask(rule) for rule in RULES},
        FREE: Unbounded(mixed_size),
    },
    base="depth-first",
    gpus=128,
    bound=mixed_size,
    warm=4.0,
    lasting=20.0,
    mixes=("office", "design", "ai"),
    loads=(0.85, 0.95),
)


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return main(VDI_MIXED, argv, __doc__)


if __name__ == "__main__":
    sys.exit(run())

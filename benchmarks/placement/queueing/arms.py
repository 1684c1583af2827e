"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.placement.queueing.baselines import Easy, Fifo
from benchmarks.placement.queueing.policies import Ours, Policy
from benchmarks.placement.queueing.scene import Scene
from benchmarks.placement.traces import Shape
from vgpumgr.model.queue import QueueRules

ARMS: dict[str, Callable[[Scene, Sequence[Shape]], Policy]] = {
    "fifo": lambda scene, _: Fifo(scene),
    "easy": lambda scene, _: Easy(scene),
    "vgpumgr": Ours,
    "vgpumgr-unknown": lambda scene, past: Ours(scene, past, bounds=False),
    "vgpumgr-planned": lambda scene, past: Ours(scene, past, planned=True),
    "vgpumgr-no-heads": lambda scene, past: Ours(scene, past, rules=QueueRules(heads=0)),
    "vgpumgr-4-heads": lambda scene, past: Ours(scene, past, rules=QueueRules(heads=4)),
    "vgpumgr-lanes": lambda scene, past: Ours(scene, past, rules=QueueRules(kept_for_short=0.05)),
}
"""Users' bounds are known to all but ``unknown``; the last four are to tell ingredients apart."""

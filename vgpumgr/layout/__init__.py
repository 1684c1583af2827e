"""Layouts: declared partitioning of GPUs. One file per part, their order in ``change_plan``.

``plan`` compares a GPU with its goal and says what to change; ``look`` and ``act`` are for one
change on one host. What is made for a VM is no part of a layout.
"""

from vgpumgr.layout.change_plan import differences, export, lacks, plan, reset_plan
from vgpumgr.layout.gpu_goals import (
    goals,
    kept_parts,
    resumed_goal,
    still_declared,
    to_keep,
    with_lost_mixed_size,
)
from vgpumgr.layout.partition_changes import (
    act,
    apply_change,
    from_plain,
    look,
    reverse,
    summary,
    to_plain,
)
from vgpumgr.layout.target import LayoutRefused

__all__ = [
    "LayoutRefused",
    "act",
    "apply_change",
    "differences",
    "export",
    "from_plain",
    "goals",
    "kept_parts",
    "lacks",
    "look",
    "plan",
    "reset_plan",
    "resumed_goal",
    "reverse",
    "still_declared",
    "summary",
    "to_keep",
    "to_plain",
    "with_lost_mixed_size",
]

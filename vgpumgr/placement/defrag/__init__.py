"""Defragmentation: which VMs to move so that whole GPUs are empty, or a request fits."""

from vgpumgr.placement.defrag.bare import one_by_one, without
from vgpumgr.placement.defrag.planning import EFFORT, plan_moves
from vgpumgr.placement.defrag.seats import reseat

__all__ = ["EFFORT", "one_by_one", "plan_moves", "reseat", "without"]

"""Defragmentation: the VMs to move so that whole GPUs are empty, or a request fits."""

from vgpumgr.placement.defrag.fleet_without import one_by_one, without
from vgpumgr.placement.defrag.movable_fleet import reseat
from vgpumgr.placement.defrag.move_search import EFFORT, plan_moves

__all__ = ["EFFORT", "one_by_one", "plan_moves", "reseat", "without"]

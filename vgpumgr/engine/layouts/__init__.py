"""Declared partitioning against what GPUs show → a plan, and its reservation. Pure."""

from vgpumgr.engine.layouts.exporting import export
from vgpumgr.engine.layouts.goals import hosts_meant, meant
from vgpumgr.engine.layouts.planning import plan, refuse
from vgpumgr.engine.layouts.reserving import named, reservation

__all__ = ["export", "hosts_meant", "meant", "named", "plan", "refuse", "reservation"]

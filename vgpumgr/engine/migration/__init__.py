"""A VM from one host to another: looked at, planned, and written down before the first effect."""

from vgpumgr.engine.migration.looks import Looks, look
from vgpumgr.engine.migration.plan import Check, DiskMove, MovePlan, refuse, refuse_nowhere
from vgpumgr.engine.migration.planning import make_plan
from vgpumgr.engine.migration.reserving import reservation

__all__ = [
    "Check",
    "DiskMove",
    "Looks",
    "MovePlan",
    "look",
    "make_plan",
    "refuse",
    "refuse_nowhere",
    "reservation",
]

"""Soft quotas and GPU prices from a linear program: which hosts should take how much of what.

Worked out off the hot path, from the fleet and a history of requests; needs highspy (extra ``lp``).
"""

from vgpumgr.placement.plan.make import FEWEST, make_plan
from vgpumgr.placement.plan.plan import NoPlan, Plan
from vgpumgr.placement.plan.quotas import Tally, penalty
from vgpumgr.placement.plan.worth import Worth

__all__ = ["FEWEST", "NoPlan", "Plan", "Tally", "Worth", "make_plan", "penalty"]

"""Differences → remedies: what we may do about each, and what only an operator can. Pure."""

from vgpumgr.engine.heal.case import Past
from vgpumgr.engine.heal.plan import plan
from vgpumgr.engine.heal.remedy import Remedy, Way

__all__ = ["Past", "Remedy", "Way", "plan"]

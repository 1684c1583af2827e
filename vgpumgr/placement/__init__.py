"""Where VMs go: pure decisions over a fleet's supply. No I/O, no clock, no randomness."""

from vgpumgr.placement.explain import FITS, explain
from vgpumgr.placement.headroom import headroom
from vgpumgr.placement.place import place

__all__ = ["FITS", "explain", "headroom", "place"]

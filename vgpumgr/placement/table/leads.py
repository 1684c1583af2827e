"""Breadth-first and depth-first as numbers: the key of a GPU in one float, lower is better.

Exact: a key's fields fit the 53 bits of a float side by side, and keep their order.
"""

from __future__ import annotations

from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.policy import Key

BREADTH, DEPTH = PlacementPolicy.BREADTH_FIRST, PlacementPolicy.DEPTH_FIRST
_BROKEN, _FREE = 1 << 8, 1 << 28


def packed(policy: PlacementPolicy, key: Key) -> float:
    """One number for the key that the policy gives a GPU."""
    if policy is BREADTH:
        free, makes, broken, whole = key
        return float(((free * 2 + makes) * _BROKEN + broken) * 2 + whole)
    makes, uncut, free, broken, whole = key
    return float((((makes * 2 + uncut) * _FREE + free) * _BROKEN + broken) * 2 + whole)

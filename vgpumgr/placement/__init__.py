"""Where VMs go: pure decisions over a fleet's supply. No I/O, no clock, no randomness."""

from vgpumgr.model.placement import FITS
from vgpumgr.placement.explain import Explainer, explain
from vgpumgr.placement.gauge import Fragmentation, HostFragmentation
from vgpumgr.placement.headroom import headroom
from vgpumgr.placement.learning import Learning
from vgpumgr.placement.mix import Mix
from vgpumgr.placement.place import place
from vgpumgr.placement.placer import Placer

__all__ = [
    "FITS",
    "Explainer",
    "Fragmentation",
    "HostFragmentation",
    "Learning",
    "Mix",
    "Placer",
    "explain",
    "headroom",
    "place",
]

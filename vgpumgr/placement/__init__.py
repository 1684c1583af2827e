"""Where VMs go: pure decisions over a fleet's supply. No I/O, no clock, no randomness."""

from vgpumgr.model.placement import FITS
from vgpumgr.placement.fit_explanation import Explainer, explain
from vgpumgr.placement.headroom import headroom
from vgpumgr.placement.placer import Placer, place
from vgpumgr.placement.request_mix import Mix
from vgpumgr.placement.scores.fragmentation import Fragmentation, HostFragmentation

__all__ = [
    "FITS",
    "Explainer",
    "Fragmentation",
    "HostFragmentation",
    "Mix",
    "Placer",
    "explain",
    "headroom",
    "place",
]

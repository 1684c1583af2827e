"""Placement's input (supply, request) and its answer (decision, reasons). Plain values."""

from vgpumgr.model.placement.decision import (
    FAR_REASONS,
    FITS,
    Assignment,
    Decision,
    NotPlaced,
    Placed,
    Reason,
)
from vgpumgr.model.placement.offers import InstanceOffer, Offer, Start
from vgpumgr.model.placement.ordering import ReasonGroup, by_board, nearest_first, rank, sentence
from vgpumgr.model.placement.supply import (
    Fleet,
    FreeVf,
    GpuSupply,
    HostSupply,
    InstanceSupply,
    NumaSupply,
    PartitionSupply,
    Usage,
)

__all__ = [
    "FAR_REASONS",
    "FITS",
    "Assignment",
    "Decision",
    "Fleet",
    "FreeVf",
    "GpuSupply",
    "HostSupply",
    "InstanceOffer",
    "InstanceSupply",
    "NotPlaced",
    "NumaSupply",
    "Offer",
    "PartitionSupply",
    "Placed",
    "Reason",
    "ReasonGroup",
    "Start",
    "Usage",
    "by_board",
    "nearest_first",
    "rank",
    "sentence",
]

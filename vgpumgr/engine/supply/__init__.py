"""Ledger and last observation → what placement may hand out. Pure."""

from vgpumgr.engine.supply.fleet import (
    LATELY_REFUSED,
    NOT_REACHED,
    NOT_READ,
    Left,
    build_fleet,
    contexts,
    unread,
    where_held,
)
from vgpumgr.engine.supply.gpu import gpu_supply
from vgpumgr.engine.supply.held import HostContext, claim_unit, nvml_unread

__all__ = [
    "LATELY_REFUSED",
    "NOT_REACHED",
    "NOT_READ",
    "HostContext",
    "Left",
    "build_fleet",
    "claim_unit",
    "contexts",
    "gpu_supply",
    "nvml_unread",
    "unread",
    "where_held",
]

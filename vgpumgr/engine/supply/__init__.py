"""Ledger and last observation → what placement may hand out. Pure."""

from vgpumgr.engine.supply.fleet import NOT_REACHED, NOT_READ, build_fleet, contexts
from vgpumgr.engine.supply.gpu import gpu_supply
from vgpumgr.engine.supply.held import HostContext

__all__ = ["NOT_REACHED", "NOT_READ", "HostContext", "build_fleet", "contexts", "gpu_supply"]

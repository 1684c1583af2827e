"""The VMs of a host that is emptied: where each can go, and why one cannot."""

from vgpumgr.engine.draining.choosing import Choice, choose
from vgpumgr.engine.draining.folding import after

__all__ = ["Choice", "after", "choose"]

"""What a VDI pool does next: pure decisions. No I/O, no clock, no randomness."""

from vgpumgr.pools.asking import Refusal, assign
from vgpumgr.pools.booked import conflict, served_by, shortages, withheld
from vgpumgr.pools.controller import turn
from vgpumgr.pools.makers import unmakeable

__all__ = [
    "Refusal",
    "assign",
    "conflict",
    "served_by",
    "shortages",
    "turn",
    "unmakeable",
    "withheld",
]

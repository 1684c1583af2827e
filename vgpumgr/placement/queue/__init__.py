"""Who starts now, who is stopped for whom, and why the others wait. Pure: ``now`` is given."""

from vgpumgr.placement.queue.amounts import amount_of
from vgpumgr.placement.queue.order import cycle
from vgpumgr.placement.queue.queue import Queue
from vgpumgr.placement.queue.turn import turn

__all__ = ["Queue", "amount_of", "cycle", "turn"]

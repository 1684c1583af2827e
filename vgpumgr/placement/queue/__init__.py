"""The queue: VMs that start now, VMs that are preempted, and why others wait. ``now`` is given."""

from vgpumgr.placement.queue.queue_turn import turn
from vgpumgr.placement.queue.tenant_shares import amount_of
from vgpumgr.placement.queue.waiting_order import cycle
from vgpumgr.placement.queue.waiting_queue import WaitingQueue

__all__ = ["WaitingQueue", "amount_of", "cycle", "turn"]

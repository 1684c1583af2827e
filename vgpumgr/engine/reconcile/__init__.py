"""What `serve` does: turns of hosts that bring ledger and fleet together, again and again.

``controller`` gives turns, ``turn`` is one host's: ``restore`` after a boot, ``recovery`` of what a
dead worker left, then a comparison. It never frees and never deletes by itself.
"""

from vgpumgr.engine.reconcile.controller import Controller
from vgpumgr.engine.reconcile.events import Event, EventKind
from vgpumgr.engine.reconcile.lanes import SerialTurns, ThreadTurns
from vgpumgr.engine.reconcile.pace import Pace
from vgpumgr.engine.reconcile.status import Status

__all__ = ["Controller", "Event", "EventKind", "Pace", "SerialTurns", "Status", "ThreadTurns"]

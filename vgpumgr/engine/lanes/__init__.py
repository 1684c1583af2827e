"""Hosts side by side: for how long which of them is waited for (``waits``), with a thread for each
(``threads``), or one after the other on a clock that can be turned (``serial``).
"""

from vgpumgr.engine.lanes.serial import SerialLanes
from vgpumgr.engine.lanes.threads import MAX_LANES, ThreadLanes
from vgpumgr.engine.lanes.waits import Everyone, OneOfMany

__all__ = [
    "MAX_LANES",
    "Everyone",
    "OneOfMany",
    "SerialLanes",
    "ThreadLanes",
]

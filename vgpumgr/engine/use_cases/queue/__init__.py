"""The queue worked: who has ended gives back, who must make room is stopped, who may starts."""

from vgpumgr.engine.use_cases.queue.turn import Worked, outlook, step

__all__ = ["Worked", "outlook", "step"]

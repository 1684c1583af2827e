"""Health of GPUs: what a signal asks for, and the state that follows from all of them."""

from __future__ import annotations

from enum import StrEnum


class ActionClass(StrEnum):
    """What an Xid, a recovery action or a reading of the GPU asks for, the least first.

    ``GUEST``: the work that met it starts again; ``FOLLOW``: another signal says what to do;
    ``CHECK``: a person is to look; ``UNKNOWN``: no source says what is to be done;
    ``RESET_WHEN_IDLE``: work goes on until the next reset; ``REPLACE``: no reset helps;
    ``LOST``: the GPU does not answer.
    """

    NONE = "none"
    GUEST = "guest"
    FOLLOW = "follow"
    CHECK = "check"
    UNKNOWN = "unknown"
    RESET_WHEN_IDLE = "reset-when-idle"
    RESET = "reset"
    RESTART_HOST = "restart-host"
    REPLACE = "replace"
    LOST = "lost"

    @property
    def rank(self) -> int:
        """How serious it is: a higher one wins over a lower one."""
        return _RANKS[self]


_RANKS = {each: rank for rank, each in enumerate(ActionClass)}

"""Which process works on what. A process that dies holds nothing any more."""

from __future__ import annotations

from typing import Protocol


class Claims(Protocol):
    """Which process works on what. A process that dies holds nothing any more."""

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until it ends or waits, or close(); False while another live
        process is. Who reserves an operation is its worker. Once the claim was lost (only a
        server's session can be), record() and reserve() raise ClaimLost.
        """

    def leave_operations(self, until: float) -> None:
        """Leave the open ones that this process works on to the person who interrupted them, until
        then (Unix seconds). They stay claimed.
        """

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process, this one included, work on it? Nothing is claimed."""

    def claim(self, name: str) -> bool:
        """Hold any other name (``serve``, ``host:NAME``) until release() or close(); False while
        another live process does.
        """

    def is_claimed(self, name: str) -> bool:
        """Does a live process, this one included, hold that name? Nothing is claimed."""

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in: the one it first read, or raised by a
        take-over, or took by :meth:`fresh_epoch`.
        """

    def fresh_epoch(self) -> int:
        """The epoch now, spoken from now on, for who still holds all it claimed; ClaimLost
        otherwise.
        """

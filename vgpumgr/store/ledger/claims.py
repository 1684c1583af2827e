"""Which process works on what; the lock says who lives, the ledger whose it is."""

from __future__ import annotations

from vgpumgr.store.ledger.journal import Journal


class Claims(Journal):
    """Claims on operations, and on other names that one process at a time may hold."""

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until it ends or waits, or close(); False while another live
        process is. Taking one over from a process that may still run raises the epoch.
        """
        return self._claiming.operation(self.operation(operation_id).id)

    def leave_operations(self, until: float) -> None:
        """Leave the open ones of this process to whoever interrupted them, until then."""
        self._claiming.leave(until)

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process work on it? Nothing is claimed."""
        return self._claiming.is_worked_on(self.operation(operation_id).id)

    def claim(self, name: str) -> bool:
        """Hold a name (``serve``, ``host:NAME``); False while another live process does."""
        return self._claiming.name(name)

    def is_claimed(self, name: str) -> bool:
        """Does a live process hold that name? Nothing is claimed."""
        return self._claiming.is_named(name)

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""
        self._claiming.release(name)

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in."""
        return self._claiming.spoken_epoch()

    def fresh_epoch(self) -> int:
        """The epoch now, for who still holds all it claimed; ClaimLost otherwise."""
        return self._claiming.fresh_epoch()

"""The same race by whole commands: every client gives ``vm apply``, the winner ``vm delete``."""

from __future__ import annotations

from tests.race import ground
from tests.race.meeting import Meeting
from tests.race.seen import WON, Seen
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.operation import Reservation


class Applying:
    """One controller with an engine and a ledger of its own."""

    def __init__(self, url: str, number: int, template: Reservation, _: Meeting) -> None:
        self._engine = ground.engine(url)
        self._number = number
        self._template = template

    def ready(self, turn: int) -> None:
        """Nothing: an apply reads for itself."""

    def attempt(self, turn: int) -> str:
        """Apply; an answer has to say what helps."""
        try:
            self._engine.apply([ground.wanted(self._name(turn))])[1].raise_for_failure()
        except VgpumgrError as error:
            assert error.message and (error.why or error.next), repr(error)
            return error.code
        return WON

    def give_back(self, turn: int, seen: Seen) -> None:
        """Delete it."""
        seen.doubles += len(ground.owners(self._engine.ledger, self._template)) > 1
        names = [self._name(turn)]
        self._engine.delete(names, keep_disks=False, force=True).raise_for_failure()

    def close(self) -> None:
        """Let go of the ledger."""
        self._engine.ledger.close()

    def _name(self, turn: int) -> str:
        return f"vm-{turn}-{self._number}"

"""What every step is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.observed import Observed
from vgpumgr.model.ports import Clock, Host


class UndoNotPossible(VgpumgrError):
    """This step only goes forward (a deleted volume does not come back)."""

    code = "operation.no-undo"


@dataclass(frozen=True, slots=True)
class Step(ABC):
    """One effect on one host. Acting on a host that is already in state changes nothing.

    ``atomic`` False: a cut call may leave half of it behind, which a look cannot tell from the
    whole; the engine then takes it back and acts anew.
    """

    atomic: ClassVar[bool] = True

    @property
    @abstractmethod
    def summary(self) -> str:
        """A line for people."""

    @abstractmethod
    def look(self, host: Host) -> Observed:
        """Is the host as this step leaves it?"""

    @abstractmethod
    def act(self, host: Host, clock: Clock) -> None:
        """Do it, and verify by reading back; raises when the host refuses."""

    def undo(self, host: Host) -> None:
        """Take it back; not done at all is no error."""
        raise UndoNotPossible(f"{self.summary}: cannot be taken back on {host.name}")

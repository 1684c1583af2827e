"""A VM that gets other GPUs of its host: with the last of these steps it has them for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.domain import RedefineDomain
from vgpumgr.engine.steps.power import StartDomain
from vgpumgr.model.ports import Host


@dataclass(frozen=True, slots=True)
class StartReseated(StartDomain):
    """Start the domain with its new devices; what it had is given back after that."""

    settles: ClassVar[bool] = True

    def undo(self, host: Host) -> None:
        """It does not run: once it does, the move is settled."""


@dataclass(frozen=True, slots=True)
class RedefineReseated(RedefineDomain):
    """The definition of a domain that is off, with its new devices; the same."""

    settles: ClassVar[bool] = True

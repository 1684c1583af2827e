"""What switches hosts off."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.model.fence import Proof
from vgpumgr.model.host import HostRecord


class Fencing(Protocol):
    """What knows, from outside a host, that it is off."""

    def switch_off(self, host: HostRecord) -> Proof:
        """Switch it off and see it off; NotPermitted when nobody can tell that it is."""

    def proof(self, host: HostRecord) -> Proof | None:
        """Why it is surely off now; None when it may be on. Nothing is done to it."""

"""Where no host can be fenced: none is ever proven off."""

from __future__ import annotations

from vgpumgr.model.errors import NotPermitted
from vgpumgr.model.fence import Proof
from vgpumgr.model.host import HostRecord


class NoFencing:
    """``ports.Fencing`` of a session that was given none."""

    def switch_off(self, host: HostRecord) -> Proof:
        """Never."""
        raise NotPermitted(f"{host.name} cannot be switched off from here")

    def proof(self, host: HostRecord) -> Proof | None:
        """None."""
        return None

"""A domain as the libvirt of one simulated host knows it."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass, field, replace

from vgpumgr.model.domain import DomainFacts, DomainState, GuestFacts
from vgpumgr.model.migration import LiveMove
from vgpumgr.sim.libvirt.needs import Needs

PIECES = 4
"""A domain moves in so many pieces: between them one can look, cancel, or pull a plug."""


NOBODY = GuestFacts(users=0)
"""A guest that has just booted: nobody is logged in."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A domain's part in a move, for as long as ``client`` drives it.

    ``left`` are the pieces that have not gone over; ``loaded``: the receiver has begun to take the
    devices' state.
    """

    client: str
    move: LiveMove
    incoming: bool
    left: int = PIECES
    loaded: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class Domain:
    """``running`` is what it was started with, ``live`` as XML; None and empty while it is off.

    ``viewers`` are QEMU's ends of connections to its VNC server. ``guest`` is what its guest would
    tell: every simulated guest has an agent, which is heard where the domain has a channel for it.
    """

    xml: str
    needs: Needs
    autostart: bool = False
    persistent: bool = True
    running: Needs | None = None
    live: str = ""
    paused: bool = False
    job: Job | None = None
    viewers: list[socket.socket] = field(default_factory=list)
    guest: GuestFacts = NOBODY

    def hang_up(self) -> None:
        """QEMU is gone: whoever looks on sees the end."""
        while self.viewers:
            with suppress(OSError):
                self.viewers.pop().shutdown(socket.SHUT_RDWR)

    @property
    def facts(self) -> DomainFacts:
        """What libvirt shows of it: while it runs, what it runs with."""
        return replace(
            (self.running or self.needs).facts,
            state=self._state,
            autostart=self.autostart,
            persistent=self.persistent,
        )

    @property
    def _state(self) -> DomainState:
        if self.running is None:
            return DomainState.SHUTOFF
        return DomainState.PAUSED if self.paused else DomainState.RUNNING

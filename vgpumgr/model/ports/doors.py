"""Where viewers of consoles come in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from vgpumgr.model.ports.stream import Stream
from vgpumgr.model.ticket import DoorSeen


class Door(Protocol):
    """A place on this machine where one viewer, who knows the password, is joined to a console."""

    @property
    def address(self) -> str:
        """Where viewers connect: ``127.0.0.1:40123``."""

    @property
    def answer(self) -> str:
        """Our public key: with his own the asker makes the password of it."""

    def look(self) -> DoorSeen:
        """How it stands; never waits."""

    def close(self) -> None:
        """Let nobody in any more, and part who is joined."""


class Doors(Protocol):
    """Makes doors."""

    def open(self, console: Stream, key: str, uids: Collection[int] = ()) -> Door:
        """A door to a console, which is the door's from now on, for the holder of ``key``; where it
        cannot be made the console is closed. Only programs of ``uids`` (none: our own) and of root
        are let in.

        HostRefused where no VNC server is behind it, or one that wants a password of its own.
        """

"""Console tickets: one user's connection to a VM's console, and the state of its proxy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TICKET_S = 30.0
"""How long a ticket of the API waits for its viewer."""


class ConsoleKind(StrEnum):
    """What a viewer is connected to: the VM's screen (VNC), or its serial console."""

    SCREEN = "screen"
    SERIAL = "serial"


class TicketState(StrEnum):
    """asked → open → connected → closed. What is closed stays as history."""

    ASKED = "asked"
    OPEN = "open"
    CONNECTED = "connected"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleTicket:
    """One ticket. Times are Unix seconds.

    ``user`` is whom it is for, ``machine`` where it was asked for: its ``address`` is of no use
    elsewhere. ``uids`` are the asker's there: whose programs may connect (none: of `serve`'s own
    user). ``key`` and ``answer`` are public keys, the asker's and `serve`'s: what they make of
    them together, the password, is written nowhere. ``why`` says why it was closed; ``code`` is
    set where that was an error, and ``next`` what helps.

    A ticket of the API has the ``digest`` of its secret, and is good until ``expires_at`` for the
    ``login`` that asked for it and the VM in ``generation``; its ``machine`` is the process that
    has the connection, and empty before.
    """

    id: str
    vm_id: str
    vm: str
    user: str
    machine: str
    key: str
    asked_at: float
    uids: tuple[int, ...] = ()
    kind: ConsoleKind = ConsoleKind.SCREEN
    digest: str = ""
    login: str = ""
    generation: int = 0
    expires_at: float | None = None
    state: TicketState = TicketState.ASKED
    address: str = ""
    answer: str = ""
    opened_at: float | None = None
    connected_at: float | None = None
    closed_at: float | None = None
    code: str = ""
    why: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketMoved:
    """A ticket goes from one state into another; refused where it is not in ``before`` any more.
    ``machine`` is where it is used from then on, if not as before.
    """

    ticket: str
    before: TicketState
    state: TicketState
    machine: str = ""
    address: str = ""
    answer: str = ""
    code: str = ""
    why: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True)
class ConsoleProxyState:
    """How a door stands: ``sent`` counts the bytes that came from the viewer; ``ended`` says why it
    is closed, and is empty while it is not; ``strangers`` counts other users who were turned away.
    """

    connected: bool = False
    sent: int = 0
    ended: str = ""
    strangers: int = 0


def ticket_lease_name(machine: str) -> str:
    """What the process claims that gives tickets on a machine."""
    return f"tickets:{machine}"

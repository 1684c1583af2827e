"""What the ledger knows of connection tickets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from vgpumgr.model.ticket import Ticket, TicketMoved


class Tickets(Protocol):
    """Between who asks for a connection and who gives it."""

    def tickets(self, ids: Collection[str] = ()) -> tuple[Ticket, ...]:
        """Those that are not closed, the oldest first; of ``ids`` what is closed, too."""

    def ask_ticket(self, ticket: Ticket) -> None:
        """Write down that somebody wants to connect."""

    def move_tickets(self, moves: Sequence[TicketMoved]) -> None:
        """Move tickets; StaleGeneration, and nothing is written, where another moved one."""

"""Connection tickets in the ledger; each method is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.model.ticket import Ticket, TicketMoved
from vgpumgr.store import hints, tickets
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried


class Tickets(Session):
    """Who asked to connect to a VM, and what became of it."""

    def tickets(self, ids: Collection[str] = ()) -> tuple[Ticket, ...]:
        """Those that are not closed, the oldest first; of ``ids`` what is closed, too."""
        with self._database.read() as connection:
            return tickets.list_tickets(connection, ids)

    @retried
    def ask_ticket(self, ticket: Ticket) -> None:
        """Write down that somebody wants to connect."""
        with self._database.write() as connection:
            tickets.ask(connection, ticket, self._stamp())
            hints.tell(connection)

    @retried
    def move_tickets(self, moves: Sequence[TicketMoved]) -> None:
        """Move tickets; StaleGeneration, and nothing is written, where another moved one."""
        with self._database.write() as connection:
            tickets.move(connection, moves, self._stamp())

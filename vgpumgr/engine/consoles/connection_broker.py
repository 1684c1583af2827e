"""The connection broker of `serve`: it hands out console connections round by round."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_context import error_line
from vgpumgr.engine.controller.cycle_threads import CycleRunner, CycleThread, EndedCycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.console_ticket import ConsoleTicket, TicketMoved, TicketState, ticket_lease_name
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    Interrupted,
    LedgerError,
    StaleGeneration,
    VgpumgrError,
)
from vgpumgr.model.ports import ConsoleProxies, ConsoleProxy

# How many tickets may be open at once, and how old an ask may be that is still answered.
MOST, ASK_S = 64, 60.0
# So often, at most, it is told that a connection is in use.
USED_S = 30.0

Hook = Callable[[ConsoleTicket], None]


def _nobody(_: ConsoleTicket) -> None:
    """An observer of tickets that ignores them."""


@dataclass(slots=True)
class _OpenConsole:
    """An open ticket's proxy, the time until which a viewer must connect, and its use so far."""

    door: ConsoleProxy
    until: float
    sent: int = 0
    told_at: float = 0.0


class ConnectionBroker:
    """Opens requested console tickets on ``machine``, as the only process there.

    ``turns`` run the work on hosts. A ticket is open for ``open_s`` seconds; ``used`` is called
    with tickets whose viewers are active, ``left`` with tickets whose viewers have disconnected.
    One thread uses a broker.
    """

    def __init__(
        self,
        context: EngineContext,
        machine: str,
        doors: ConsoleProxies,
        turns: CycleRunner[ConsoleProxy],
        *,
        open_s: float,
        emit: Emit,
        used: Hook = _nobody,
        left: Hook = _nobody,
    ) -> None:
        self._context = context
        self._machine = machine
        self._doors = doors
        self._turns = turns
        self._open_s = open_s
        self._emit = emit
        self._used = used
        self._left = left
        self._asked: dict[str, ConsoleTicket] = {}
        self._held: dict[str, _OpenConsole] = {}

    def round(self, wait_s: float = 0.0) -> None:
        """One round: new requests, finished work, ended tickets; waits up to that long for work to
        end.
        """
        for end in self._turns.ended(wait_s):
            self._answered(end)
        if not self._context.ledger.claim(ticket_lease_name(self._machine)):
            return
        open_ = self._context.ledger.tickets()
        mine = {each.id: each for each in open_ if each.machine == self._machine}
        for ticket in mine.values():
            self._attend(ticket)
        for gone in self._held.keys() - mine.keys():
            self._held.pop(gone).door.close()

    def close(self) -> None:
        """Disconnect every viewer, and end the tickets."""
        self._turns.stop()
        for held in self._held.values():
            held.door.close()
        mine = {**{each.id: each for each in self._context.ledger.tickets()}, **self._asked}
        for ticket in mine.values():
            if ticket.id in self._held or ticket.id in self._asked:
                self._close(ticket, Interrupted("vgpumgr serve has ended"))
        self._held.clear()
        self._context.ledger.release(ticket_lease_name(self._machine))

    # -- one ticket ----------------------------------------------------------------------------

    def _attend(self, ticket: ConsoleTicket) -> None:
        held = self._held.get(ticket.id)
        if held is not None:
            self._watch(ticket, held)
        elif ticket.state is not TicketState.ASKED:
            self._close(ticket, Interrupted("the vgpumgr serve that had opened it has ended"))
        elif ticket.id not in self._asked:
            self._consider(ticket)

    def _consider(self, ticket: ConsoleTicket) -> None:
        age = self._context.clock.now() - ticket.asked_at
        if age > ASK_S:
            self._close(ticket, DeadlineExceeded(f"nobody answered within {ASK_S:g} s"))
        elif len(self._held) + len(self._asked) >= MOST:
            self._close(
                ticket, Conflict(f"{MOST} console tickets are open", next="try again later")
            )
        elif self._turns.free > 0:
            self._asked[ticket.id] = ticket
            self._turns.begin(ticket.id, partial(self._open, ticket))

    def _open(self, ticket: ConsoleTicket, lane: CycleThread) -> ConsoleProxy:
        """In a thread of its own."""
        vm = self._context.ledger.vm(ticket.vm)
        if vm.id != ticket.vm_id:
            raise Conflict(f"{vm.name} is another VM by now", next=f"vgpumgr vm connect {vm.name}")
        console = self._context.host(vm.host).console(vm.name, vm.id)
        door = self._doors.open(console, ticket.key, ticket.uids)
        if lane.stop.is_set():
            door.close()
            raise Interrupted("vgpumgr serve has ended")
        return door

    def _answered(self, end: EndedCycle[ConsoleProxy]) -> None:
        ticket = self._asked.pop(end.lane.host)
        if isinstance(end.result, Exception):
            with suppress(LedgerError):  # it is still asked for: the next round tries again
                self._close(ticket, end.result)
            return
        door = end.result
        opened = TicketMoved(
            ticket=ticket.id,
            before=TicketState.ASKED,
            state=TicketState.OPEN,
            address=door.address,
            answer=door.answer,
        )
        try:
            self._context.ledger.move_tickets([opened])
        except (StaleGeneration, LedgerError):
            door.close()  # who asked did not wait so long; or it is tried again
        else:
            self._held[ticket.id] = _OpenConsole(
                door, self._context.clock.monotonic() + self._open_s
            )

    def _watch(self, ticket: ConsoleTicket, held: _OpenConsole) -> None:
        seen, now = held.door.look(), self._context.clock.monotonic()
        if seen.connected and ticket.state is TicketState.OPEN:
            ticket = self._connected(ticket)
        if seen.ended:
            self._close(ticket, None, seen.ended)
        elif seen.connected:
            if seen.sent > held.sent and now >= held.told_at + USED_S:
                held.sent, held.told_at = seen.sent, now
                self._used(ticket)
        elif now >= held.until:
            held.door.close()
            self._close(ticket, None, _unused(self._open_s, seen.strangers))

    def _connected(self, ticket: ConsoleTicket) -> ConsoleTicket:
        connected = TicketState.CONNECTED
        self._context.ledger.move_tickets(
            [TicketMoved(ticket=ticket.id, before=ticket.state, state=connected)]
        )
        self._tell(EventKind.TICKET_CONNECTED, ticket, f"{ticket.user} is at {ticket.vm}")
        return replace(ticket, state=connected)

    def _close(self, ticket: ConsoleTicket, error: Exception | None, why: str = "") -> None:
        """End a ticket, unless another process has ended it before."""
        code = next_ = ""
        if isinstance(error, VgpumgrError):
            code, why, next_ = error.code, error_line(error), error.next
        elif error is not None:
            code, why = VgpumgrError.code, f"{type(error).__name__}: {error}"
        closed = TicketMoved(
            ticket=ticket.id,
            before=ticket.state,
            state=TicketState.CLOSED,
            code=code,
            why=why,
            next=next_,
        )
        with suppress(StaleGeneration):
            self._context.ledger.move_tickets([closed])
            text = f"the ticket of {ticket.user} for {ticket.vm} is closed: {why}"
            self._tell(EventKind.TICKET_CLOSED, ticket, text)
            if ticket.state is TicketState.CONNECTED:
                self._left(ticket)
        self._held.pop(ticket.id, None)

    def _tell(self, kind: EventKind, ticket: ConsoleTicket, text: str) -> None:
        self._emit(ControllerEvent(kind=kind, vm=ticket.vm, text=text))


def _unused(open_s: float, strangers: int) -> str:
    """Why a ticket ended without use; other users that tried it are named."""
    others = f"; connections of other users, rejected: {strangers}" if strangers else ""
    return f"no viewer connected within {open_s:g} s{others}"

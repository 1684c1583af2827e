"""A request for a connection to a VM's console, and the wait for its answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from vgpumgr.engine.operations.session import Session
from vgpumgr.model.console_ticket import ConsoleTicket, TicketMoved, TicketState, ticket_lease_name
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    Interrupted,
    StaleGeneration,
    VgpumgrError,
    kind_of,
)
from vgpumgr.model.vm import VmRecord, VmState


def guest_addresses(session: Session, vm: VmRecord) -> tuple[str, ...]:
    """As the agent in the guest tells them; none where it has no agent, or none answers."""
    if not vm.spec.agent:
        return ()
    try:
        found = session.host(vm.host).domains.guest(vm.id)
    except VgpumgrError:
        return ()  # the ticket is what was asked for
    return found.addresses if found is not None else ()


_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who wants to connect: ``user`` at ``machine``, whose public key is ``key`` and whose programs
    there run as one of ``uids``.
    """

    user: str
    machine: str
    key: str
    timeout_s: float
    uids: tuple[int, ...] = ()


def connect(session: Session, name: str, wish: Wish) -> ConsoleTicket:
    """An open ticket for a VM; what keeps `serve` from giving one is raised.

    Conflict: the VM is off, or nobody gives tickets on this machine. DeadlineExceeded: no answer.
    """
    vm = session.ledger.vm(name)
    _check(vm)
    if not _is_served(session, wish):
        raise Conflict(
            "no vgpumgr serve runs here to proxy the console",
            why=f"none runs on {wish.machine} with this ledger",
            next="vgpumgr serve   (in another terminal, or as a service)",
        )
    asked = ConsoleTicket(
        id=session.new_uuid(),
        vm_id=vm.id,
        vm=vm.name,
        user=wish.user,
        machine=wish.machine,
        key=wish.key,
        uids=wish.uids,
        asked_at=session.clock.now(),
    )
    session.ledger.ask_ticket(asked)
    return _answer(session, asked, wish)


def _check(vm: VmRecord) -> None:
    if vm.state is not VmState.ACTIVE:
        raise Conflict(f"{vm.name} is {vm.state}", next=f"vgpumgr vm show {vm.name}")
    if not vm.running:
        raise Conflict(f"{vm.name} is off", next=f"vgpumgr vm start {vm.name}")


def _is_served(session: Session, wish: Wish) -> bool:
    return session.ledger.is_claimed(ticket_lease_name(wish.machine))


def _answer(session: Session, asked: ConsoleTicket, wish: Wish) -> ConsoleTicket:
    until = session.clock.monotonic() + wish.timeout_s
    while True:
        ticket = next(each for each in session.ledger.tickets([asked.id]) if each.id == asked.id)
        if ticket.state is TicketState.CLOSED:
            raise _refused(ticket)
        if ticket.state is not TicketState.ASKED:
            return ticket
        if session.stop.is_set():
            raise _given_up(session, asked, Interrupted("interrupted"))
        if session.clock.monotonic() >= until or not _is_served(session, wish):
            late = DeadlineExceeded(
                f"there is no connection to {asked.vm} yet",
                why=f"vgpumgr serve did not answer within {wish.timeout_s:g} s",
                next=f"vgpumgr doctor, then vgpumgr vm connect {asked.vm}",
            )
            raise _given_up(session, asked, late)
        session.clock.wait(_POLL_S)


def _refused(ticket: ConsoleTicket) -> VgpumgrError:
    return kind_of(ticket.code)(
        f"there is no connection to {ticket.vm}", why=ticket.why, next=ticket.next
    )


def _given_up(session: Session, asked: ConsoleTicket, error: VgpumgrError) -> VgpumgrError:
    """Nobody waits for it any more."""
    closed = TicketMoved(
        ticket=asked.id,
        before=TicketState.ASKED,
        state=TicketState.CLOSED,
        code=error.code,
        why=error.why or error.message,
    )
    with suppress(StaleGeneration):  # answered just now: it closes by itself
        session.ledger.move_tickets([closed])
    return error

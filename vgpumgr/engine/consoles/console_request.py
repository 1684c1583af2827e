"""A request for a connection to a VM's console, and the wait for its answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from vgpumgr.engine.operations.engine_context import EngineContext
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


def guest_addresses(context: EngineContext, vm: VmRecord) -> tuple[str, ...]:
    """The guest's addresses, from its agent; none without an agent that answers."""
    if not vm.spec.agent:
        return ()
    try:
        found = context.host(vm.host).domains.guest(vm.domain_uuid)
    except VgpumgrError:
        return ()  # the ticket is what was asked for
    return found.addresses if found is not None else ()


_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRequest:
    """A user's request for a console: ``user`` at ``machine``, whose public key is ``key`` and
    whose programs there run as one of ``uids``.
    """

    user: str
    machine: str
    key: str
    timeout_s: float
    uids: tuple[int, ...] = ()


def connect(context: EngineContext, name: str, request: ConsoleRequest) -> ConsoleTicket:
    """An open ticket for a VM; the reason why `serve` gives none is raised.

    Conflict: the VM is off, or no process gives tickets on this machine. DeadlineExceeded: no
    answer.
    """
    vm = context.ledger.vm(name)
    _check(vm)
    if not _is_served(context, request):
        raise Conflict(
            "no vgpumgr serve runs here to proxy the console",
            why=f"none runs on {request.machine} with this ledger",
            next="vgpumgr serve   (in another terminal, or as a service)",
        )
    asked = ConsoleTicket(
        id=context.new_uuid(),
        vm_id=vm.id,
        vm=vm.name,
        user=request.user,
        machine=request.machine,
        key=request.key,
        uids=request.uids,
        asked_at=context.clock.now(),
    )
    context.ledger.ask_ticket(asked)
    return _answer(context, asked, request)


def _check(vm: VmRecord) -> None:
    if vm.state is not VmState.ACTIVE:
        raise Conflict(f"{vm.name} is {vm.state}", next=f"vgpumgr vm show {vm.name}")
    if not vm.running:
        raise Conflict(f"{vm.name} is off", next=f"vgpumgr vm start {vm.name}")


def _is_served(context: EngineContext, request: ConsoleRequest) -> bool:
    return context.ledger.is_claimed(ticket_lease_name(request.machine))


def _answer(context: EngineContext, asked: ConsoleTicket, request: ConsoleRequest) -> ConsoleTicket:
    until = context.clock.monotonic() + request.timeout_s
    while True:
        ticket = next(each for each in context.ledger.tickets([asked.id]) if each.id == asked.id)
        if ticket.state is TicketState.CLOSED:
            raise _refused(ticket)
        if ticket.state is not TicketState.ASKED:
            return ticket
        if context.stop.is_set():
            raise _given_up(context, asked, Interrupted("interrupted"))
        if context.clock.monotonic() >= until or not _is_served(context, request):
            late = DeadlineExceeded(
                f"there is no connection to {asked.vm} yet",
                why=f"vgpumgr serve did not answer within {request.timeout_s:g} s",
                next=f"vgpumgr doctor, then vgpumgr vm connect {asked.vm}",
            )
            raise _given_up(context, asked, late)
        context.clock.wait(_POLL_S)


def _refused(ticket: ConsoleTicket) -> VgpumgrError:
    return kind_of(ticket.code)(
        f"there is no connection to {ticket.vm}", why=ticket.why, next=ticket.next
    )


def _given_up(context: EngineContext, asked: ConsoleTicket, error: VgpumgrError) -> VgpumgrError:
    """End a request that timed out."""
    closed = TicketMoved(
        ticket=asked.id,
        before=TicketState.ASKED,
        state=TicketState.CLOSED,
        code=error.code,
        why=error.why or error.message,
    )
    with suppress(StaleGeneration):  # answered just now: it closes by itself
        context.ledger.move_tickets([closed])
    return error

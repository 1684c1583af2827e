"""Console tickets of the API: for one connection within 30 seconds, of the login that asked.

The secret is told once to who asks; the ledger has its SHA-256. Whichever process of the ledger it
is shown to first uses it up, whether the viewer is let in or not.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vgpumgr.access.grants import may_use_desktop
from vgpumgr.access.permission import Permission
from vgpumgr.access.token_secret import SECRET_BYTES, secret_digest
from vgpumgr.app.actor import machine
from vgpumgr.identity.established import shown_login
from vgpumgr.model.console_ticket import (
    TICKET_S,
    ConsoleKind,
    ConsoleTicket,
    TicketMoved,
    TicketState,
    ticket_lease_name,
)
from vgpumgr.model.errors import Conflict, NotFound, NotPermitted, StaleGeneration, VgpumgrError
from vgpumgr.model.vm import VmState

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.app.access_control import AccessControl
    from vgpumgr.identity.established import Established
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.model.ports import Stream
    from vgpumgr.model.vm import VmRecord

MOST_OF_ONE = 16
"""Tickets and connections of one login at once."""
_USED = "it was used before"


class TicketRefused(NotPermitted):
    """A console ticket that is not taken. ``reason`` is for the trail alone: who shows a ticket is
    not told which of the reasons it was.
    """

    code = "not-permitted.ticket"

    def __init__(self, reason: str) -> None:
        super().__init__(
            "the console ticket is not taken",
            why="it was used before, is too old, or is another login's, or its VM is off",
            next="ask for another one",
        )
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ConsoleTickets:
    """Tickets over a ledger; ``now`` is Unix seconds."""

    ledger: Ledger
    access: AccessControl
    now: Callable[[], float] = time.time
    new_id: Callable[[], str] = field(default=lambda: str(uuid.uuid4()))
    chance: Callable[[int], bytes] = field(default_factory=lambda: secrets.token_bytes)

    def give(
        self, who: Established, vm: VmRecord, kind: ConsoleKind, user: str
    ) -> tuple[ConsoleTicket, str]:
        """A ticket for a VM that runs, and its secret, which is kept nowhere; Conflict where it
        does not run, or this login has too many.
        """
        require_running(vm)
        now, secret, login = self.now(), self.chance(SECRET_BYTES).hex(), shown_login(who)
        self.close_left_behind()
        if sum(each.login == login for each in self.ledger.tickets()) >= MOST_OF_ONE:
            raise Conflict(
                f"{MOST_OF_ONE} consoles are open by this login", next="close one of them"
            )
        ticket = ConsoleTicket(
            id=self.new_id(),
            vm_id=vm.id,
            vm=vm.name,
            user=user,
            machine="",
            key="",
            asked_at=now,
            kind=kind,
            digest=secret_digest(secret),
            login=login,
            generation=vm.generation,
            expires_at=now + TICKET_S,
            state=TicketState.OPEN,
            opened_at=now,
        )
        self.ledger.ask_ticket(ticket)
        return ticket, secret

    def connected(
        self, who: Established, vm: VmRecord, kind: ConsoleKind, machine: str
    ) -> ConsoleTicket:
        """The record of a connection that needs no secret: it is made by the process that asks."""
        require_running(vm)
        now = self.now()
        ticket = ConsoleTicket(
            id=self.new_id(),
            vm_id=vm.id,
            vm=vm.name,
            user=who.principal.user,
            machine=machine,
            key="",
            asked_at=now,
            kind=kind,
            login=shown_login(who),
            generation=vm.generation,
            state=TicketState.CONNECTED,
            opened_at=now,
            connected_at=now,
        )
        self.ledger.ask_ticket(ticket)
        return ticket

    def take(self, secret: str, who: Established, machine: str) -> tuple[ConsoleTicket, VmRecord]:
        """Use a ticket up: it is connected to ``machine`` from now on; TicketRefused."""
        found = self.ledger.ticket_of(secret_digest(secret)) if secret else None
        if found is None:
            raise TicketRefused("it is not known")
        if found.state is not TicketState.OPEN:
            raise TicketRefused(_USED)
        vm, why = self._looked_at(found)
        if shown_login(who) != found.login:
            why = "another login showed it"
        elif found.expires_at is None or self.now() >= found.expires_at:
            why = "it is too old"
        elif vm is not None and vm.generation != found.generation:
            why = f"{found.vm} was changed since"
        elif vm is not None and not why and not self._may_connect(who, found, vm):
            why = "the login may not connect to it any more"
        self._move(found, TicketState.CLOSED if why else TicketState.CONNECTED, why, machine)
        if why or vm is None:
            raise TicketRefused(why)
        return replace(found, state=TicketState.CONNECTED, machine=machine), vm

    def objection(self, ticket: ConsoleTicket, host: str) -> str:
        """Why a connection to a VM on ``host`` may not go on; empty where it may."""
        vm, why = self._looked_at(ticket)
        if vm is None or why:
            return why
        if vm.host != host:
            return f"{ticket.vm} was moved"
        try:
            who = self.access.of_login(ticket.login)
        except NotPermitted as error:
            return f"the login is over: {error.why or error.message}"
        allowed = self._may_connect(who, ticket, vm)
        return "" if allowed else "the login may not connect to it any more"

    def close(self, ticket: ConsoleTicket, why: str, error: VgpumgrError | None = None) -> None:
        """End a ticket, unless another process has ended it before."""
        with suppress(StaleGeneration):
            self.ledger.move_tickets(
                [
                    TicketMoved(
                        ticket=ticket.id,
                        before=ticket.state,
                        state=TicketState.CLOSED,
                        code=error.code if error else "",
                        why=why,
                        next=error.next if error else "",
                    )
                ]
            )

    def close_left_behind(self) -> None:
        """End tickets that were not used in time, and those of processes that are gone."""
        now = self.now()
        for each in self.ledger.tickets():
            if not each.login:
                continue
            if each.state is TicketState.OPEN and now >= (each.expires_at or 0.0):
                self.close(each, f"no viewer connected within {TICKET_S:g} s")
            elif each.state is TicketState.CONNECTED and not self.ledger.is_claimed(
                ticket_lease_name(each.machine)
            ):
                self.close(each, "the process that had the connection has ended")

    def _move(self, found: ConsoleTicket, state: TicketState, why: str, machine: str) -> None:
        """The swap that only one can make."""
        moved = TicketMoved(
            ticket=found.id, before=TicketState.OPEN, state=state, why=why, machine=machine
        )
        try:
            self.ledger.move_tickets([moved])
        except StaleGeneration:
            raise TicketRefused(_USED) from None

    def _looked_at(self, ticket: ConsoleTicket) -> tuple[VmRecord | None, str]:
        """The VM as it is now, and why there is no connection to it."""
        try:
            vm = self.ledger.vm(ticket.vm)
        except NotFound:
            return None, f"{ticket.vm} is gone"
        if vm.id != ticket.vm_id:
            return None, f"{ticket.vm} is another VM by now"
        return vm, "" if vm.running else f"{ticket.vm} is off"

    def _may_connect(self, who: Established, ticket: ConsoleTicket, vm: VmRecord) -> bool:
        """By ``vm:console``, or to the desktop on which the ticket's user is."""
        tenant = vm.spec.tenant
        if tenant in who.grants.scope(Permission.VM_CONSOLE):
            return True
        rows = self.ledger.desktops([vm.name])
        on_it = [each.desktop.session for each in rows if each.vm_id == vm.id]
        return any(
            each is not None and each.user == ticket.user for each in on_it
        ) and may_use_desktop(who.grants, who.principal, ticket.user, tenant)


def require_running(vm: VmRecord) -> None:
    """Conflict where there is nothing to connect to."""
    if vm.state is not VmState.ACTIVE:
        raise Conflict(f"{vm.name} is {vm.state}", next=f"vgpumgr vm show {vm.name}")
    if not vm.running:
        raise Conflict(f"{vm.name} is off", next=f"vgpumgr vm start {vm.name}")


@contextmanager
def serial_console(app: App, name: str) -> Iterator[Stream]:
    """A VM's serial console in this process, while the block lasts; Conflict where it does not run.
    It is written down like every other connection.
    """
    vm = app.ledger.vm(name)
    tickets, here = app.console_tickets, f"{machine()}/shell-{uuid.uuid4().hex[:12]}"
    app.writable_ledger.claim(ticket_lease_name(here))
    ticket = tickets.connected(app.access.at_shell(), vm, ConsoleKind.SERIAL, here)
    why = "the viewer disconnected"
    try:
        console = app.engine.host(vm.host).console(vm.name, vm.id, ConsoleKind.SERIAL)
        try:
            yield console
        finally:
            console.close()
    except BaseException as error:
        why = str(error) or why
        raise
    finally:
        tickets.close(ticket, why)
        app.writable_ledger.release(ticket_lease_name(here))

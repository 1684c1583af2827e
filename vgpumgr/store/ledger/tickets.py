"""Console tickets in the ledger: asked, moved, closed, never deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import printable
from vgpumgr.model.console_ticket import ConsoleKind, ConsoleTicket, TicketMoved, TicketState
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import ticket, vm
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

Row = dict[str, Any]

_OPEN = ticket.c.closed_at.is_(None)
_NAMES = tuple(each.name for each in fields(ConsoleTicket))
_WHEN = {
    TicketState.OPEN: "opened_at",
    TicketState.CONNECTED: "connected_at",
    TicketState.CLOSED: "closed_at",
}


def list_tickets(
    connection: Connection, ids: Collection[str] = (), *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[ConsoleTicket, ...]:
    """Those that are not closed, the oldest first; of ``ids`` what is closed, too."""
    wanted = or_(_OPEN, ticket.c.id.in_(sorted(ids))) if ids else _OPEN
    query = select(ticket).where(wanted, within).order_by(ticket.c.asked_at, ticket.c.id)
    return tuple(ticket_of(row) for row in connection.execute(query))


def ask_ticket(connection: Connection, stamp: Stamp, asked: ConsoleTicket) -> None:
    """Add one."""
    values = {name: getattr(asked, name) for name in _NAMES}
    uids = ",".join(str(each) for each in asked.uids)
    tenant = connection.execute(select(vm.c.tenant).where(vm.c.id == asked.vm_id)).scalar()
    row = {**values, "state": asked.state.value, "uids": uids, "tenant": tenant or ""}
    connection.execute(insert(ticket), [{**row, "kind": asked.kind.value}])
    kind = "" if asked.kind is ConsoleKind.SCREEN else f" ({asked.kind})"
    write(connection, stamp, [_told(asked.state, asked.vm, f"for {asked.user}{kind}")])


def find_ticket(connection: Connection, digest: str) -> ConsoleTicket | None:
    """The ticket of the API whose secret has that digest, closed ones too."""
    row = connection.execute(select(ticket).where(ticket.c.digest == digest)).first()
    return ticket_of(row) if row is not None and digest else None


def move_tickets(connection: Connection, stamp: Stamp, moves: Iterable[TicketMoved]) -> None:
    """Move tickets; StaleGeneration for one that somebody else moved."""
    for each in moves:
        values: Row = {"state": each.state.value, "code": each.code, "next": printable(each.next)}
        values |= {"why": printable(each.why), _WHEN[each.state]: stamp.at}
        if each.state is TicketState.OPEN:
            values |= {"address": each.address, "answer": each.answer}
        if each.machine:
            values["machine"] = each.machine
        moved = (
            update(ticket)
            .where(ticket.c.id == each.ticket, ticket.c.state == each.before.value)
            .values(**values)
            .returning(ticket.c.vm)
        )
        name = connection.execute(moved).scalar_one_or_none()
        if name is None:
            raise StaleGeneration(
                "the ticket changed since it was read",
                why=f"ticket {each.ticket} is not {each.before} any more",
                next="ask for another one",
            )
        write(connection, stamp, [_told(each.state, name, each.why or each.address)])


def _told(state: TicketState, name: str, detail: str) -> Row:
    return {"event": f"ticket.{state}", "vm": name, "detail": detail}


@decodes(ticket)
def ticket_of(row: Any) -> ConsoleTicket:
    """The ticket of a whole row."""
    found = {name: getattr(row, name) for name in _NAMES}
    found["uids"] = tuple(int(each) for each in row.uids.split(",") if each)
    found |= {"state": TicketState(row.state), "kind": ConsoleKind(row.kind)}
    return ConsoleTicket(**found)

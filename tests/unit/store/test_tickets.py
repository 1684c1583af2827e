"""The rows of tickets: asked, moved by one at a time, closed, never deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store.values import fleet, start, vm
from vgpumgr.model.console_ticket import ConsoleTicket, TicketMoved, TicketState
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.store import SqlLedger

ASKED, OPEN, CLOSED = TicketState.ASKED, TicketState.OPEN, TicketState.CLOSED


@pytest.fixture
def ledger(url: str) -> SqlLedger:
    made = fleet(url)
    made.reserve(start(vms=[vm("desk", id="vm-desk")]))
    return made


def asked(
    id_: str = "t1", at: float = 10.0, uids: tuple[int, ...] = (0, 4294967294)
) -> ConsoleTicket:
    return ConsoleTicket(
        id=id_,
        vm_id="vm-desk",
        vm="desk",
        user="ann",
        machine="here",
        key="her key",
        asked_at=at,
        uids=uids,
    )


def test_a_tickets_life_is_kept(ledger: SqlLedger) -> None:
    ledger.ask_ticket(asked())
    ledger.ask_ticket(asked("t0", 5.0, uids=()))
    assert ledger.tickets() == (asked("t0", 5.0, uids=()), asked())
    opened = TicketMoved(ticket="t1", before=ASKED, state=OPEN, address="127.0.0.1:1", answer="key")
    ledger.move_tickets([opened])
    closed = TicketMoved(
        ticket="t1", before=OPEN, state=CLOSED, code="deadline", why="nobody came", next="again"
    )
    ledger.move_tickets([closed])
    assert ledger.tickets() == (asked("t0", 5.0, uids=()),)
    [found] = [each for each in ledger.tickets(["t1"]) if each.id == "t1"]
    assert found.opened_at is not None and found.closed_at is not None
    assert replace(found, opened_at=None, closed_at=None) == replace(
        asked(), state=CLOSED, address="127.0.0.1:1", answer="key",
        code="deadline", why="nobody came", next="again",
    )  # fmt: skip
    told = [(each.event, each.vm, each.detail) for each in ledger.audit(event="ticket")]
    assert told == [
        ("ticket.closed", "desk", "nobody came"),
        ("ticket.open", "desk", "127.0.0.1:1"),
        ("ticket.asked", "desk", "for ann"),
        ("ticket.asked", "desk", "for ann"),
    ]


def test_who_moves_it_second_is_told_and_writes_nothing(ledger: SqlLedger) -> None:
    ledger.ask_ticket(asked())
    ledger.ask_ticket(asked("t2"))
    ledger.move_tickets([TicketMoved(ticket="t1", before=ASKED, state=CLOSED)])
    late = [TicketMoved(ticket=each, before=ASKED, state=OPEN) for each in ("t2", "t1")]
    with pytest.raises(StaleGeneration):
        ledger.move_tickets(late)
    assert [(each.id, each.state) for each in ledger.tickets()] == [("t2", ASKED)]


def test_who_gives_tickets_is_seen_without_claiming_anything(ledger: SqlLedger) -> None:
    assert not ledger.is_claimed("tickets:here")
    assert ledger.claim("tickets:here")
    assert ledger.is_claimed("tickets:here")
    ledger.release("tickets:here")
    assert not ledger.is_claimed("tickets:here")

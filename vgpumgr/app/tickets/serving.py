"""The desk of tickets as a thread of `serve`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from vgpumgr.app.actor import machine
from vgpumgr.app.tickets.door import LoopbackDoors
from vgpumgr.engine.reconcile import Event, EventKind, ThreadTurns
from vgpumgr.engine.reconcile.events import Emit
from vgpumgr.engine.session import Session
from vgpumgr.engine.ticketing.desk import Desk
from vgpumgr.engine.use_cases import pool
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.ports import Door

# How long a round waits for an answer, a failed one for the next, and the end for the last.
_BEAT_S, _AGAIN_S, _END_S = 0.5, 5.0, 10.0
# Hosts that are dialled at once.
_WORKERS = 16


@contextmanager
def giving_tickets(
    session: Session, *, open_s: float, timeout_s: float, emit: Emit
) -> Iterator[None]:
    """Tickets are given while the block lasts; at its end all connections are parted.

    ``open_s`` is how long one waits for its viewer, ``timeout_s`` how long a handshake may take.
    """
    turns: ThreadTurns[Door] = ThreadTurns(_WORKERS, session.clock)
    doors = LoopbackDoors(timeout_s)
    desk = Desk(
        session,
        machine(),
        doors,
        turns,
        open_s=open_s,
        emit=emit,
        used=lambda ticket: pool.heartbeat(session, ticket.vm, ticket.user),
        left=lambda ticket: pool.part(session, ticket.vm, ticket.user),
    )
    ending = threading.Event()
    thread = threading.Thread(
        target=_run, args=(desk, ending, emit), name="vgpumgr-tickets", daemon=True
    )
    with closing(session.ledger.hear(turns.wake)):
        thread.start()
        try:
            yield
        finally:
            ending.set()
            turns.wake()
            thread.join(_END_S)


def _run(desk: Desk, ending: threading.Event, emit: Emit) -> None:
    while not ending.is_set():
        try:
            desk.round(_BEAT_S)
        except LedgerError:
            ending.wait(_AGAIN_S)  # told by who else works on it
        except Exception as defect:
            text = f"tickets: {type(defect).__name__}: {defect}"
            emit(Event(kind=EventKind.TURN_FAILED, text=text))
            ending.wait(_AGAIN_S)
    with suppress(LedgerError):  # the next serve says so
        desk.close()

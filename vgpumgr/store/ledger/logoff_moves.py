"""Moves of VMs in the ledger that wait until a user has logged off; closed, never deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, load_list, printable
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import logoff_move
from vgpumgr.store.schema.columns import ALL_ROWS, decodes

_OPEN_MOVES = logoff_move.c.closed_at.is_(None)
_LOGOFF_MOVES = select(logoff_move).where(_OPEN_MOVES).order_by(logoff_move.c.vm)
_END = (
    update(logoff_move)
    .where(_OPEN_MOVES)
    .values(closed_at=bindparam("in_at"), outcome=bindparam("in_outcome"))
)
_END_ID = _END.where(logoff_move.c.id == bindparam("in_id")).returning(logoff_move.c.vm)
_END_VM = _END.where(logoff_move.c.vm_id == bindparam("in_vm"))


def list_logoff_moves(
    connection: Connection, *, within: ColumnElement[bool] = ALL_ROWS
) -> tuple[LogoffMove, ...]:
    """Those that wait, by VM."""
    return tuple(move_of(row) for row in connection.execute(_LOGOFF_MOVES.where(within)))


def await_logoff(connection: Connection, stamp: Stamp, moves: Iterable[LogoffMove]) -> None:
    """Let moves wait; each takes the place of one of the same VM."""
    for each in moves:
        again = {"in_vm": each.vm_id, "in_at": stamp.at, "in_outcome": "replaced by a new plan"}
        connection.execute(_END_VM, again)
        row = {
            "id": each.id,
            "vm_id": each.vm_id,
            "vm": each.vm,
            "user_name": printable(each.user),
            "host": each.host,
            "leaves": dump(each.leaves),
            "takes": dump(each.takes),
            "why": printable(each.why),
            "asked_at": each.asked_at,
            "closed_at": None,
            "outcome": "",
        }
        connection.execute(insert(logoff_move), row)
        write(connection, stamp, [_move_told("move.waits", each.vm, each.host, f"for {each.user}")])


def end_logoff_move(connection: Connection, stamp: Stamp, id_: str, outcome: str) -> bool:
    """Let a move wait no more; False where it did not any longer."""
    values = {"in_id": id_, "in_at": stamp.at, "in_outcome": printable(outcome)}
    name = connection.execute(_END_ID, values).scalar_one_or_none()
    if name is not None:
        write(connection, stamp, [_move_told("move.ended", name, "", outcome)])
    return name is not None


def _move_told(event: str, vm: str, host: str, detail: str) -> dict[str, Any]:
    return {"event": event, "vm": vm, "host": host, "detail": detail}


@decodes(logoff_move)
def move_of(row: Any) -> LogoffMove:
    """The move of a whole row."""
    return LogoffMove(
        id=row.id,
        vm_id=row.vm_id,
        vm=row.vm,
        user=row.user_name,
        host=row.host,
        leaves=tuple(load_list(row.leaves)),
        takes=tuple(load_list(row.takes)),
        why=row.why,
        asked_at=row.asked_at,
    )

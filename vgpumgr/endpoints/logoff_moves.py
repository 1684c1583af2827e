"""The endpoints of moves that wait until a user has logged off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.errors import VgpumgrError


class LogoffMoveItem(TypedDict):
    """A move to ``host`` that waits until ``user`` has logged off: the VM ``leaves`` GPUs (our ids)
    for the ones that it ``takes``.
    """

    name: str
    id: str
    vm_id: str
    vm: str
    user: str
    host: str
    leaves: list[str]
    takes: list[str]
    why: str
    asked_at: Time


def list_moves(context: CallContext, _: Nothing) -> Result[ItemList[LogoffMoveItem]]:
    """Moves that wait, by VM; `serve` makes them then."""
    moves = context.reads.logoff_moves()
    return Result(answer={"items": [_item(each) for each in moves]})


def _item(move: LogoffMove) -> LogoffMoveItem:
    plain: LogoffMoveItem = to_plain(move)
    return {"name": move.vm, **plain}


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledMoves:
    """VMs whose moves are cancelled."""

    names: Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=10_000)]


class StayingVmItem(TypedDict):
    """A VM that stays on its host when the user logs off."""

    name: str
    host: str
    user: str


def cancel_moves(context: CallContext, asked: CancelledMoves) -> Result[ItemList[StayingVmItem]]:
    """Cancel, one after the other until one is not found; the VMs stay where they are."""
    context.require_vms(asked.names)
    items: list[StayingVmItem] = []
    for name in asked.names:
        try:
            moved = context.app.engine.cancel_logoff_move(name)
        except VgpumgrError as error:
            return Result(answer={"items": items}, error=error)
        host = context.app.ledger.vm(name).host
        items.append({"name": name, "host": host, "user": moved.user})
    return Result(answer={"items": items})


LIST_MOVES = Endpoint(
    name="defrag.list",
    method=HttpMethod.GET,
    path="/logoff-moves",
    permission=Permission.VM_READ,
    summary="Moves of VMs that wait until a user has logged off.",
    asks=Nothing,
    answers=ItemList[LogoffMoveItem],
    kind="LogoffMoveList",
    work=list_moves,
    scoped=True,
)
CANCEL_MOVES = Endpoint(
    name="defrag.cancel",
    method=HttpMethod.POST,
    path="/logoff-moves:cancel",
    permission=Permission.VM_MIGRATE,
    summary="Cancel moves that wait for a logoff.",
    asks=CancelledMoves,
    answers=ItemList[StayingVmItem],
    kind="StayingVMList",
    work=cancel_moves,
)

ENDPOINTS = (LIST_MOVES, CANCEL_MOVES)

"""History in the ledger: requests with their answers, and past allocations."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, select

from vgpumgr.model.codec import decoded, load, load_list
from vgpumgr.model.history import Holding, RequestOutcome, RequestRecord
from vgpumgr.model.placement import Explanation, Reason
from vgpumgr.model.vm import VmSpec
from vgpumgr.store.ledger.rows import decodes
from vgpumgr.store.schema import allocation, request


def list_requests(
    connection: Connection, *, since: float = 0.0, vm: str = "", limit: int | None = None
) -> tuple[RequestRecord, ...]:
    """Requests from ``since`` on, the newest first; of one name where ``vm`` is given."""
    query = select(request).where(request.c.at >= since).order_by(request.c.id.desc()).limit(limit)
    if vm:
        query = query.where(request.c.vm == vm)
    return tuple(request_of(row) for row in connection.execute(query))


@decodes(request)
def request_of(row: Any) -> RequestRecord:
    """The request of a whole row."""
    return RequestRecord(
        vm=row.vm,
        at=row.at,
        answer=RequestOutcome(row.outcome),
        spec=load(VmSpec, row.spec),
        explanation=_explanation(row.vm, json.loads(row.reasons)),
    )


def _explanation(vm: str, said: Any) -> Explanation | None:
    """Older rows hold the sentences alone; those of placed requests are empty."""
    if not said:
        return None
    if isinstance(said, list):
        reasons = tuple(Reason(code="", host="", text=_sentence(text)) for text in said)
        return Explanation(vm=vm, host=None, reasons=reasons)
    return decoded(Explanation, said)


def _sentence(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.40} is not a sentence")  # noqa: TRY004 - as for any other text
    return text


def list_holdings(connection: Connection) -> tuple[Holding, ...]:
    """Everything that allocations hold or ever held, the oldest first."""
    columns = allocation.c
    query = select(
        columns.id,
        columns.gpu,
        columns.profile,
        columns.slots,
        columns.created_at,
        columns.released_at,
    ).order_by(columns.created_at, columns.id)
    return tuple(_holding(row) for row in connection.execute(query))


@decodes(allocation)
def _holding(row: Any) -> Holding:
    _, gpu, profile, slots, since, until = row
    return Holding(gpu=gpu, profile=profile, units=len(load_list(slots)), since=since, until=until)

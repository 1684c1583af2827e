"""History in the ledger: requests with their answers, and what allocations have held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, or_, select
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump, from_plain, load, load_list
from vgpumgr.model.history import Holding, RequestOutcome, RequestRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.model.placement import Explanation, Reason
from vgpumgr.model.vm import VmSpec
from vgpumgr.store.database.redaction import withheld
from vgpumgr.store.ledger.vms import Row
from vgpumgr.store.schema import allocation, request
from vgpumgr.store.schema.columns import ALL_ROWS, decodes


def refuse(connection: Connection, refused: Sequence[RequestRecord]) -> None:
    """Keep refused requests for history."""
    rows = [
        {
            "at": each.at,
            "vm": each.vm,
            "outcome": RequestOutcome.REFUSED.value,
            "spec": _kept(each.spec, dump(each.spec)),
            "reasons": dump(each.explanation),
            "tenant": each.spec.tenant,
        }
        for each in refused
    ]
    if rows:
        connection.execute(insert(request), rows)


def keep_requests(connection: Connection, start: Reservation, vms: list[Row]) -> None:
    """Keep the placed requests of a reservation; ``vms`` are the rows of its new VMs."""
    rows = [
        {
            "at": start.operation.started_at,
            "vm": row["name"],
            "outcome": RequestOutcome.PLACED.value,
            "spec": _kept(vm.spec, row["spec"]),
            "reasons": "[]",
            "vm_id": row["id"],
            "tenant": vm.spec.tenant,
        }
        for vm, row in zip(start.vms, vms, strict=True)
    ]
    if rows:
        connection.execute(insert(request), rows)


def _kept(spec: VmSpec, text: str) -> str:
    """A spec's text as requests keep it: with digests for its cloud-init text."""
    return text if spec.cloud_init is None else withheld(text)


def list_requests(
    connection: Connection,
    *,
    since: float = 0.0,
    vm: str = "",
    limit: int | None = None,
    within: ColumnElement[bool] = ALL_ROWS,
) -> tuple[RequestRecord, ...]:
    """Requests from ``since`` on, the newest first; of one name where ``vm`` is given."""
    query = (
        select(request)
        .where(request.c.at >= since, within)
        .order_by(request.c.id.desc())
        .limit(limit)
    )
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
    return from_plain(Explanation, said)


def _sentence(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.40} is not a sentence")  # noqa: TRY004 - as for any other text
    return text


def list_holdings(connection: Connection, since: float = 0.0) -> tuple[Holding, ...]:
    """Everything that allocations hold, or held after ``since``, the oldest first."""
    columns = allocation.c
    query = select(
        columns.id,
        columns.gpu,
        columns.profile,
        columns.slots,
        columns.created_at,
        columns.released_at,
    ).order_by(columns.created_at, columns.id)
    if since:
        query = query.where(or_(columns.released_at.is_(None), columns.released_at > since))
    return tuple(_holding(row) for row in connection.execute(query))


@decodes(allocation)
def _holding(row: Any) -> Holding:
    _, gpu, profile, slots, since, until = row
    return Holding(gpu=gpu, profile=profile, units=len(load_list(slots)), since=since, until=until)

"""The endpoint of the audit trail: who changed what, when, by which operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.history import AuditRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Records of all that is given (empty: any); ``operation``, ``by`` and ``user`` may be the
    beginning of one. ``since`` is Unix seconds; at most ``limit`` records, 0 for all.
    """

    vm: str = ""
    host: str = ""
    operation: str = ""
    event: str = ""
    by: str = ""
    user: str = ""
    tenant: str = ""
    since: float | None = None
    limit: Annotated[int, ParameterLimits(ge=0)] = 100


class AuditItem(TypedDict):
    """A record of the trail. ``before`` and ``after`` are generations of what changed, ``by`` is
    who did it, ``asked_by`` who asked for the operation that it is part of.
    """

    name: str
    seq: int
    at: Time
    by: str
    event: str
    operation: str
    task: str
    vm: str
    host: str
    gpu: str
    allocation: str
    profile: str
    device: str
    units: list[int]
    before: int | None
    after: int | None
    detail: str
    tenant: str
    method: str
    address: str
    credential: str
    consumption: dict[str, int]
    asked_by: str


class AuditList(TypedDict):
    """Records, the newest first; ``more``: there are others before them."""

    items: list[AuditItem]
    more: bool


def list_audit(context: CallContext, asked: AuditFilter) -> Result[AuditList]:
    """The records that are asked for."""
    found = context.reads.audit(
        vm=asked.vm,
        host=asked.host,
        operation=asked.operation,
        event=asked.event,
        by=asked.by,
        user=asked.user,
        tenant=asked.tenant,
        since=asked.since,
        limit=asked.limit + 1 if asked.limit else None,
    )
    shown = found[: asked.limit] if asked.limit else found
    return Result(
        answer={"items": [_item(each) for each in shown], "more": len(found) > len(shown)}
    )


def _item(record: AuditRecord) -> AuditItem:
    plain: AuditItem = to_plain(record)
    return {"name": str(record.seq), **plain}


LIST_AUDIT = Endpoint(
    name="audit.list",
    method=HttpMethod.GET,
    path="/audit",
    permission=Permission.AUDIT_READ,
    summary="The audit trail, newest first.",
    asks=AuditFilter,
    answers=AuditList,
    kind="AuditList",
    work=list_audit,
    scoped=True,
)

ENDPOINTS = (LIST_AUDIT,)

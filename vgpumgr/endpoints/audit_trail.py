"""The endpoint of the audit trail: who changed what, when, by which operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UsageError
from vgpumgr.model.history import AuditRecord

if TYPE_CHECKING:
    from vgpumgr.model.sealed_trail import TrailVerdict


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


class TrailPlaceItem(TypedDict):
    """How far a check of the trail has come: the parameters of its next piece."""

    size: int
    edge: str
    seq: int
    leaf: int
    most: int


class TrailVerdictItem(TypedDict):
    """What a piece of the check found. ``sealed`` counts the records up to its end, ``wrong`` has a
    line for each that is not as it was sealed; ``next`` is null where all were compared.
    """

    name: str
    sealed: int
    checkpoints: int
    unsealed: int
    unsealed_since: Time | None
    wrong: list[str]
    next: TrailPlaceItem | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailPiece:
    """At most ``most`` records of the trail; the rest says where the piece before it ended."""

    size: Annotated[int, ParameterLimits(ge=0)] = 0
    edge: Annotated[str, ParameterLimits(max_length=64 * 64, pattern="^[0-9a-f]*$")] = ""
    seq: Annotated[int, ParameterLimits(ge=0)] = 0
    leaf: Annotated[int, ParameterLimits(ge=-1)] = -1
    most: Annotated[int, ParameterLimits(ge=1, le=100_000)] = 50_000


def verify_audit(context: CallContext, asked: TrailPiece) -> Result[TrailVerdictItem]:
    """Compare a piece of the sealed records with their hashes, and with this controller's signed
    checkpoints.
    """
    from vgpumgr.app.trail_key import trail_key
    from vgpumgr.app.trail_sealer import kept_note
    from vgpumgr.audit.signed_note import open_note
    from vgpumgr.model.sealed_trail import KeptNote, TrailPlace

    folder = context.app.config.keys_dir
    path, own = kept_note(folder)
    kept = [KeptNote(f"the checkpoint in {path.name}", own)] if own else []
    key = trail_key(folder).public
    begin = TrailPlace(**to_plain(asked))
    try:
        verdict = context.app.ledger.check_trail(lambda note: open_note(note, (key,)), kept, begin)
    except ValueError as error:
        raise UsageError("a check cannot go on there", next="begin it again") from error
    return Result(answer=_verdict(verdict))


def _verdict(found: TrailVerdict) -> TrailVerdictItem:
    return {
        "name": "trail",
        "sealed": found.sealed,
        "checkpoints": found.checkpoints,
        "unsealed": found.unsealed,
        "unsealed_since": found.unsealed_since,
        "wrong": list(found.wrong),
        "next": to_plain(found.place),
    }


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

VERIFY_AUDIT = Endpoint(
    name="audit.verify",
    method=HttpMethod.GET,
    path="/audit:verify",
    permission=Permission.AUDIT_READ,
    summary="Compare sealed records of the audit trail with their seal, a piece of them at a time.",
    asks=TrailPiece,
    answers=TrailVerdictItem,
    kind="TrailVerdict",
    work=verify_audit,
    runs=Runs.WORKER,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_AUDIT, VERIFY_AUDIT)

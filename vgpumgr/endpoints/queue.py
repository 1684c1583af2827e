"""The endpoints of the queue: list, show, cancel, and its next turn."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import ItemList, Name, Nothing, Time
from vgpumgr.model.errors import NotFound
from vgpumgr.model.queue import QueueEntry, QueueState
from vgpumgr.model.vm import terms_text

if TYPE_CHECKING:
    from vgpumgr.model.queue import QueueDecision, Wait


class AskedParts(TypedDict):
    """GPU parts that are asked for, by profile or by size."""

    profile: str
    memory_mib: int | None
    count: int


class QueueItem(TypedDict):
    """A VM that waits (``position`` 1 is the next), runs after it did, or has ended. Room is kept
    for it on ``host``, which is there at ``starts_by`` at the latest. ``preempted`` counts.
    """

    name: str
    id: str
    state: str
    position: int | None
    why: str
    priority: int
    spot: bool
    runtime_s: float | None
    after: list[str]
    together: str
    terms: str
    tenant: str
    gpus: list[AskedParts]
    since: Time
    started_at: Time | None
    closed_at: Time | None
    preempted: int
    host: str | None
    starts_by: Time | None


class WholeQueueEntry(QueueItem):
    """The last stay of a VM in the queue, and those before it."""

    before: list[QueueItem]


def queue_items(entries: Iterable[QueueEntry], turn: QueueDecision | None) -> list[QueueItem]:
    """The JSON of entries, waiting ones with their position and why."""
    waits = {each.waiting.vm.name: each for each in turn.waits} if turn else {}
    starts = {each.waiting.vm.name for each in turn.starts} if turn else set()
    return [_item(each, waits.get(each.name), each.name in starts) for each in entries]


def _item(entry: QueueEntry, wait: Wait | None, starts: bool) -> QueueItem:
    terms = entry.terms
    waits = entry.state is QueueState.WAITING
    return {
        "name": entry.name,
        "id": entry.id,
        "state": str(entry.state),
        "position": wait.position if wait and waits else None,
        "why": _why(entry, wait, starts) if waits else entry.why,
        "priority": terms.priority,
        "spot": terms.spot,
        "runtime_s": terms.runtime_s,
        "after": list(terms.after),
        "together": terms.together,
        "terms": terms_text(terms),
        "tenant": entry.vm.tenant,
        "gpus": [
            {"profile": each.profile, "memory_mib": each.memory_mib, "count": each.count}
            for each in entry.vm.gpus
        ],
        "since": entry.since,
        "started_at": entry.started_at,
        "closed_at": entry.closed_at,
        "preempted": entry.preempted,
        "host": wait.reservation.host if wait and wait.reservation else None,
        "starts_by": wait.reservation.by if wait and wait.reservation else None,
    }


def _why(entry: QueueEntry, wait: Wait | None, starts: bool) -> str:
    """What happened to it last, and what keeps it from starting now."""
    now = "starts in the next reconcile cycle" if starts else wait.text if wait else "being stopped"
    return "; ".join(part for part in (entry.why, now) if part)


def list_queue(context: CallContext, _: Nothing) -> Result[ItemList[QueueItem]]:
    """The VMs that wait, by position, and the running ones that came through the queue."""
    entries = context.reads.queue()
    items = queue_items(entries, context.app.engine.queue_outlook() if entries else None)
    last = len(items) + 1
    items.sort(key=lambda item: item["position"] or last)
    return Result(answer={"items": items})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedVmName:
    """A VM that is or was in the queue."""

    name: Name


def show_entry(context: CallContext, asked: QueuedVmName) -> Result[WholeQueueEntry]:
    """Every stay of a VM in the queue, the newest first."""
    entries = [each for each in context.reads.queue([asked.name]) if each.name == asked.name]
    if not entries:
        raise NotFound(f"{asked.name} was never in the queue", next="vgpumgr queue list")
    items = queue_items(reversed(entries), context.app.engine.queue_outlook())
    return Result(answer={**items[0], "before": items[1:]})


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelQueued:
    """VMs to take out of the queue."""

    names: Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=10_000)]


class CancelledVms(TypedDict):
    """VMs that were taken out of the queue."""

    name: str
    vms: list[str]


def cancel_queued(context: CallContext, asked: CancelQueued) -> Result[CancelledVms]:
    """Take them out: all, or none. A preempted VM stays shelved."""
    _require_own(context, asked.names)
    context.app.writable_ledger.cancel_queued(asked.names)
    return Result(answer={"name": "queue", "vms": list(dict.fromkeys(asked.names))})


def _require_own(context: CallContext, names: Iterable[str]) -> None:
    """NotFound where one of these is not in the queue, as the caller may see it."""
    if context.scope.is_all:
        return
    from vgpumgr.store.database.faults import not_found

    there = {each.name for each in context.reads.queue()}
    for name in names:
        if name not in there:
            raise not_found("queue", name, there)


class QueueStartItem(TypedDict):
    """A VM that starts, after the spot VMs that it ``preempts`` are stopped."""

    vm: str
    host: str
    preempts: list[str]


class QueueWaitItem(TypedDict):
    """A VM that goes on waiting: ``why`` is a stable word; room that is kept for it on ``host``
    needs the VMs ``ends`` to have ended.
    """

    vm: str
    position: int
    why: str
    text: str
    host: str | None
    starts_by: Time | None
    ends: list[str]


class QueueTurn(TypedDict):
    """What the next reconcile cycle does with the queue."""

    name: str
    starts: list[QueueStartItem]
    waits: list[QueueWaitItem]


def explain_queue(context: CallContext, _: Nothing) -> Result[QueueTurn]:
    """Which VMs the next cycle would start, and why the others wait."""
    own = None if context.scope.is_all else {each.name for each in context.reads.queue()}
    return Result(answer=_turn_item(context.app.engine.queue_outlook(), own))


def _turn_item(turn: QueueDecision, own: Collection[str] | None) -> QueueTurn:
    """The turn, of these VMs alone where they are given."""
    return {
        "name": "queue",
        "starts": [
            {
                "vm": each.waiting.vm.name,
                "host": each.placed.host,
                "preempts": list(each.preempts),
            }
            for each in turn.starts
            if own is None or each.waiting.vm.name in own
        ],
        "waits": [
            {
                "vm": each.waiting.vm.name,
                "position": each.position,
                "why": str(each.why),
                "text": each.text,
                "host": each.reservation.host if each.reservation else None,
                "starts_by": each.reservation.by if each.reservation else None,
                "ends": list(each.reservation.ends) if each.reservation else [],
            }
            for each in turn.waits
            if own is None or each.waiting.vm.name in own
        ],
    }


LIST_QUEUE = Endpoint(
    name="queue.list",
    method=HttpMethod.GET,
    path="/queue",
    permission=Permission.QUEUE_READ,
    summary="VMs that wait for capacity, and running VMs that did.",
    asks=Nothing,
    answers=ItemList[QueueItem],
    kind="QueueList",
    work=list_queue,
    runs=Runs.WORKER,
    scoped=True,
)
SHOW_ENTRY = Endpoint(
    name="queue.show",
    method=HttpMethod.GET,
    path="/queue/{name}",
    permission=Permission.QUEUE_READ,
    summary="Every stay of a VM in the queue.",
    asks=QueuedVmName,
    answers=WholeQueueEntry,
    kind="QueueEntry",
    work=show_entry,
    runs=Runs.WORKER,
    scoped=True,
)
CANCEL_QUEUED = Endpoint(
    name="queue.cancel",
    method=HttpMethod.POST,
    path="/queue:cancel",
    permission=Permission.QUEUE_WRITE,
    summary="Take VMs out of the queue.",
    asks=CancelQueued,
    answers=CancelledVms,
    kind="CancelledVMs",
    work=cancel_queued,
    scoped=True,
)
EXPLAIN_QUEUE = Endpoint(
    name="queue.explain",
    method=HttpMethod.GET,
    path="/queue:turn",
    permission=Permission.QUEUE_READ,
    summary="What the next reconcile cycle would start, and why other VMs wait.",
    asks=Nothing,
    answers=QueueTurn,
    kind="QueueTurn",
    work=explain_queue,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_QUEUE, SHOW_ENTRY, CANCEL_QUEUED, EXPLAIN_QUEUE)

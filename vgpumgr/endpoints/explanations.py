"""The endpoints that explain where a request fits, or why it fits nowhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import (
    DocumentText,
    documents_of,
    source_name,
    typed_source,
    vms_of,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.own_documents import own_documents
from vgpumgr.endpoints.plan_items import ExplanationItem, explanation_item
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.errors import NotFound, VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.model.placement import Explanation


class ExplanationList(TypedDict):
    """Where VMs would go, or why nowhere."""

    name: str
    items: list[ExplanationItem]


def _answer(
    found: Iterable[Explanation], error: VgpumgrError | None = None
) -> Result[ExplanationList]:
    items = [explanation_item(each) for each in found]
    return Result(answer={"name": "explain", "items": items}, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainVm:
    """A VM that waits, or was asked for."""

    name: Name


def explain_vm(context: CallContext, asked: ExplainVm) -> Result[ExplanationList]:
    """Why it waits in the queue, or how its last request was decided."""
    _require_own(context, asked.name)
    return _answer([context.app.engine.explain_one(asked.name)])


def _require_own(context: CallContext, name: str) -> None:
    """NotFound unless the last request for a VM of the name was the caller's."""
    reads, ledger = context.reads, context.app.ledger
    if context.scope.is_all or any(each.name == name for each in reads.queue()):
        return
    last = next(iter(ledger.requests(vm=name, limit=1)), None)
    if last is None or last not in reads.requests(vm=name, limit=1):
        raise NotFound(
            f"no VM {name} was ever requested", next=f"vgpumgr explain -f FILE --vm {name}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainDocuments(DocumentText):
    """Documents of VMs to decide as a whole; ``only`` is the one VM that is explained, or empty.
    ``refresh``: the hosts are probed first.
    """

    only: str = ""
    refresh: bool = False


def explain_documents(context: CallContext, asked: ExplainDocuments) -> Result[ExplanationList]:
    """Where each VM would go by the last observation, or the rule that each GPU fails."""
    unread = refresh(context) if asked.refresh else None
    documents = own_documents(context, documents_of(context.app.ledger, asked))
    specs = vms_of(documents, asked.source)
    names = [spec.name for spec in specs]
    if asked.only and asked.only not in names:
        near = difflib.get_close_matches(asked.only, names, 1) or names[:1]
        raise NotFound(
            f"{source_name(asked.source)} names no VM {asked.only}",
            next=f"vgpumgr explain {typed_source(asked.source)} --vm {near[0]}",
        )
    found = context.app.engine.explain(specs, {asked.only} if asked.only else ())
    return _answer(found, unread)


EXPLAIN_VM = Endpoint(
    name="vm.explain-one",
    method=HttpMethod.GET,
    path="/vms/{name}/explanation",
    permission=Permission.VM_PLAN,
    summary="Why a VM waits in the queue, or how its last request was decided.",
    asks=ExplainVm,
    answers=ExplanationList,
    kind="Explanation",
    work=explain_vm,
    runs=Runs.WORKER,
    scoped=True,
)
EXPLAIN_DOCUMENTS = Endpoint(
    name="vm.explain",
    method=HttpMethod.POST,
    path="/vms:explain",
    permission=Permission.VM_PLAN,
    summary="Where VMs of documents would go, or why nowhere; nothing is changed.",
    asks=ExplainDocuments,
    answers=ExplanationList,
    kind="Explanation",
    work=explain_documents,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (EXPLAIN_VM, EXPLAIN_DOCUMENTS)

"""The endpoints of layout documents: planned, applied, and compared with the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import DocumentText, Source, Text, documents_of, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.layout_items import LayoutPlanItem, layout_plan_item
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_item
from vgpumgr.endpoints.refreshed import unread_error
from vgpumgr.model.errors import UsageError

if TYPE_CHECKING:
    from vgpumgr.model.layout import LayoutSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutDocuments:
    """Layout documents: their ``text``, and the ``source`` that messages name. None: the layouts
    that were applied last.
    """

    text: Text | None = None
    source: Source = "FILE"


class AppliedLayouts(LayoutPlanItem, OutcomeItem):
    """A plan of layouts, and what came of it."""


def plan_layouts(context: CallContext, asked: LayoutDocuments) -> Result[LayoutPlanItem]:
    """Probe, and say what applying would do; nothing is changed."""
    specs = _specs(context, asked)
    if specs is None:
        _require_layouts(context)
    return _planned(context, specs)


def assert_layouts(context: CallContext, asked: LayoutDocuments) -> Result[LayoutPlanItem]:
    """Compare the hosts with documents, or with what was applied last, which may be nothing."""
    return _planned(context, _specs(context, asked))


def apply_layouts(context: CallContext, asked: LayoutDocuments) -> Result[AppliedLayouts]:
    """Partition GPUs as declared; Conflict, and nothing is changed, where a guest uses one."""
    specs = _specs(context, asked)
    if specs is None:
        _require_layouts(context)
    context.app.require_hosts()
    with context.changing() as engine:
        done, outcome = engine.layout_apply(specs)
    item: AppliedLayouts = {**layout_plan_item(done), **outcome_item(outcome)}
    return Result(answer=item, error=failure_of(outcome) or unread_error(done.warnings))


def _planned(context: CallContext, specs: Sequence[LayoutSpec] | None) -> Result[LayoutPlanItem]:
    context.app.require_hosts()
    plan = context.app.engine.layout_plan(specs)
    return Result(answer=layout_plan_item(plan), error=unread_error(plan.warnings))


def _specs(context: CallContext, asked: LayoutDocuments) -> tuple[LayoutSpec, ...] | None:
    """UsageError where the documents hold no layout."""
    if asked.text is None:
        return None
    layouts = documents_of(
        context.app.ledger, DocumentText(text=asked.text, source=asked.source)
    ).layouts
    if not layouts:
        raise UsageError(
            f"{source_name(asked.source)} holds no layout",
            next="add a document with kind: Layout",
        )
    return layouts


def _require_layouts(context: CallContext) -> None:
    if not context.app.ledger.layouts():
        raise UsageError("no GPU has a layout yet", next="vgpumgr layout apply -f FILE")


def _endpoint(verb: str, work: Any, summary: str) -> Endpoint[LayoutDocuments, LayoutPlanItem]:
    return Endpoint(
        name=f"layout.{verb}",
        method=HttpMethod.POST,
        path=f"/layouts:{verb}",
        permission=Permission.LAYOUT_READ,
        summary=summary,
        asks=LayoutDocuments,
        answers=LayoutPlanItem,
        kind="LayoutPlan",
        work=work,
        runs=Runs.WORKER,
    )


PLAN_LAYOUTS = _endpoint("plan", plan_layouts, "What applying layouts would do.")
ASSERT_LAYOUTS = _endpoint("assert", assert_layouts, "How GPUs differ from layouts.")
APPLY_LAYOUTS = Endpoint(
    name="layout.apply",
    method=HttpMethod.POST,
    path="/layouts:apply",
    permission=Permission.LAYOUT_WRITE,
    summary="Partition GPUs as layouts declare.",
    asks=LayoutDocuments,
    answers=AppliedLayouts,
    kind="LayoutApply",
    work=apply_layouts,
    runs=Runs.OPERATION,
)

ENDPOINTS = (PLAN_LAYOUTS, ASSERT_LAYOUTS, APPLY_LAYOUTS)

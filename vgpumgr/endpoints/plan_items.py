"""Plans of VMs in JSON, and the reasons why GPUs and hosts refuse a VM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from vgpumgr.endpoints.layout_items import LayoutPlanItem
from vgpumgr.endpoints.outcomes import OutcomeItem
from vgpumgr.endpoints.replica_surplus import SurplusItem
from vgpumgr.model.placement import Explanation, Reason, nearest_first

if TYPE_CHECKING:
    from vgpumgr.model.apply_plan import Plan


class ReasonItem(TypedDict):
    """Why one GPU (or host, ``gpu`` empty) refuses: ``code`` is stable, ``facts`` its numbers."""

    code: str
    host: str
    gpu: str
    device: str
    model: str
    text: str
    facts: dict[str, int | float | str]


class ActionItem(TypedDict):
    """What happens to one VM: ``details`` are lines for people. ``replace`` is set where the change
    cannot be made in place: how to go on. ``wave`` is its wave of a rolling change; 0: at once.
    """

    kind: str
    vm: str
    host: str
    details: list[str]
    needs_restart: bool
    replace: str
    wave: int


class UnplacedItem(TypedDict):
    """A VM without a place, with the reasons, the nearest to a yes first."""

    vm: str
    reasons: list[ReasonItem]


class WaitingItem(TypedDict):
    """A VM that waits for room; ``position`` 1 is the next. ``new``: it enters the queue now."""

    vm: str
    position: int
    why: str
    new: bool


class PlanItem(TypedDict):
    """What would be done: ``changes`` is how many VMs would change. ``warnings`` name hosts that
    could not be read, ``layouts`` is what the layouts among the documents would change, ``surplus``
    are VMs that the documents have no longer.
    """

    name: str
    changes: int
    actions: list[ActionItem]
    unplaced: list[UnplacedItem]
    waiting: list[WaitingItem]
    unchanged: list[str]
    warnings: list[str]
    notes: list[str]
    layouts: NotRequired[LayoutPlanItem]
    surplus: NotRequired[list[SurplusItem]]


class AppliedPlan(PlanItem, OutcomeItem):
    """A plan, and what came of it."""


class ChangeHint(TypedDict):
    """A change that makes a refused VM fit, which was tried: it then goes to ``host``."""

    kind: str
    text: str
    host: str
    words: str
    next: str


class ExplanationItem(TypedDict):
    """A VM: the host that it goes to (null: nowhere) and a reason per GPU or host. ``line`` says it
    in short; ``standing`` is set where it is no new request.
    """

    vm: str
    host: str | None
    line: str
    standing: str
    reasons: list[ReasonItem]
    changes: list[ChangeHint]


def reason_items(reasons: Iterable[Reason]) -> list[ReasonItem]:
    """The JSON of reasons, the nearest to a yes first."""
    return [reason_item(each) for each in nearest_first(reasons)]


def reason_item(reason: Reason) -> ReasonItem:
    """The JSON of one."""
    return {
        "code": reason.code,
        "host": reason.host,
        "gpu": reason.gpu,
        "device": reason.device,
        "model": reason.model,
        "text": reason.text,
        "facts": dict(reason.facts),
    }


def reasons_of(items: Iterable[Mapping[str, object]]) -> tuple[Reason, ...]:
    """The reasons that :func:`reason_items` wrote."""
    return tuple(Reason(**item) for item in items)  # type: ignore[arg-type]


def plan_item(plan: Plan) -> PlanItem:
    """The JSON of a plan."""
    return {
        "name": "plan",
        "changes": plan.changes,
        "actions": [
            {
                "kind": str(action.kind),
                "vm": action.vm.name,
                "host": action.host,
                "details": list(action.details),
                "needs_restart": action.needs_restart,
                "replace": action.replace,
                "wave": action.wave,
            }
            for action in plan.actions
        ],
        "unplaced": [
            {"vm": refused.request.name, "reasons": reason_items(refused.reasons)}
            for refused in plan.unplaced
        ],
        "waiting": [
            {"vm": each.vm.name, "position": each.position, "why": each.why, "new": each.new}
            for each in plan.waiting
        ],
        "unchanged": list(plan.unchanged),
        "warnings": list(plan.warnings),
        "notes": list(plan.notes),
    }


def explanation_item(found: Explanation) -> ExplanationItem:
    """The JSON of an explanation."""
    return {
        "vm": found.vm,
        "host": found.host,
        "line": found.line,
        "standing": found.standing,
        "reasons": reason_items(found.reasons),
        "changes": [
            {
                "kind": each.kind,
                "text": each.text,
                "host": each.host,
                "words": each.words,
                "next": each.next,
            }
            for each in found.changes
        ],
    }

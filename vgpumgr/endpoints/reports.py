"""The endpoints of showback: GPU time, what it cost, and the same as FOCUS rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.errors import UsageError
from vgpumgr.model.json_times import time_text
from vgpumgr.model.role_binding import Scope
from vgpumgr.model.showback import MICROSECONDS, MOST_YEARS, ReportBy, Span, UsageKey

if TYPE_CHECKING:
    from vgpumgr.showback.priced_usage import PricedLine, ReportLine
    from vgpumgr.showback.usage_count import UsageCount

_HOUR_DIGITS = 4
_MOST_S = MOST_YEARS * 366 * 86_400
By = Literal["tenant", "vm", "pool"]


class UsageReportLine(TypedDict):
    """GPU time of a tenant, VM or pool on boards of one model; ``idle`` is what no VM held.
    ``gpu_hours`` are hours of a whole board, rounded so that lines add up to their sum;
    ``gpu_microseconds`` is the same exactly, as a whole number or a fraction.
    """

    tenant: str
    pool: str
    vm: str
    vm_id: str
    model: str
    idle: bool
    gpu_hours: str
    gpu_microseconds: str


class CostReportLine(UsageReportLine):
    """The same with what it cost, as a decimal, rounded so that lines add up to their sum."""

    amount: str


class UsageReport(TypedDict):
    """GPU time from ``since`` until just before ``until``. For callers who may see all tenants the
    lines are all the time that GPUs were in the fleet, idle time too; for others their own.
    """

    name: str
    since: Time
    until: Time
    by: str
    lines: list[UsageReportLine]
    gpu_hours: str
    gpu_microseconds: str


class CostReport(TypedDict):
    """What GPU time cost; as in the report of use."""

    name: str
    since: Time
    until: Time
    by: str
    currency: str
    lines: list[CostReportLine]
    gpu_hours: str
    gpu_microseconds: str
    amount: str


class FocusReport(TypedDict):
    """Costs as rows of FOCUS 1.2; an empty text stands for null."""

    name: str
    since: Time
    until: Time
    lines: list[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAsked:
    """A report from ``since`` until ``until`` (Unix seconds; null: now), in whole seconds, with a
    line for each ``by``.
    """

    since: float
    until: float | None = None
    by: By = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusAsked:
    """Rows for what was used from ``since`` until ``until`` (Unix seconds; null: now)."""

    since: float
    until: float | None = None


def report_usage(context: CallContext, asked: ReportAsked) -> Result[UsageReport]:
    """GPU time: of the caller's tenants, or of the whole fleet."""
    from vgpumgr.showback.priced_usage import ReportLine

    span = _span(asked.since, asked.until)
    lines = [
        ReportLine(key=each.key, model=each.model, gpu_time=each.gpu_time)
        for each in _count(context, span, ReportBy(asked.by)).lines(span)
    ]
    told = [line for line, _ in _told(lines, 0, context.scope)]
    answer: Any = {"name": "usage", **_times(span), "by": asked.by, "lines": told, **_sums(told)}
    return Result(answer=answer)


def report_cost(context: CallContext, asked: ReportAsked) -> Result[CostReport]:
    """What GPU time cost: to the caller's tenants, or of the whole fleet."""
    from vgpumgr.showback.priced_usage import summed

    span = _span(asked.since, asked.until)
    priced = _priced(context, span, ReportBy(asked.by))
    decimals = max((each.book.decimals for each in priced), default=0)
    told = list(_told(summed(priced), decimals, context.scope))
    lines: list[Any] = [{**line, "amount": f"{amount:f}"} for line, amount in told]
    total = sum((amount for _, amount in told), Decimal(0).scaleb(-decimals))
    answer: Any = {
        "name": "cost",
        **_times(span),
        "by": asked.by,
        "currency": priced[0].book.currency if priced else "",
        "lines": lines,
        **_sums(lines),
        "amount": f"{total:f}",
    }
    return Result(answer=answer)


def report_focus(context: CallContext, asked: FocusAsked) -> Result[FocusReport]:
    """Costs, a row for each profile of each VM and the prices it had, and for idle boards."""
    from vgpumgr.showback.focus_rows import FocusBill

    span = _span(asked.since, asked.until)
    priced = _priced(context, span, ReportBy.PART)
    rows = FocusBill(account=context.app.ledger.fleet_id(), span=span).rows(priced)
    both = zip(priced, rows, strict=True)
    lines = [row for each, row in both if _is_shown(each.line.key, context.scope)]
    answer: Any = {"name": "focus", **_times(span), "lines": lines}
    return Result(answer=answer)


def _span(since: float, until: float | None) -> Span:
    """Whole seconds, up to now; UsageError where there is nothing in it, or too much."""
    now = time.time()
    first, end = floor(since), floor(min(now if until is None else until, now))
    if end <= first:
        raise UsageError(
            f"nothing is between {time_text(first)} and {time_text(end)}",
            why="a report ends after it begins, and now at the latest",
            next="--from an earlier time, or --to a later one",
        )
    if end - first > _MOST_S:
        raise UsageError(f"a report is of at most {MOST_YEARS} years", next="--from a later time")
    return Span(first * MICROSECONDS, end * MICROSECONDS)


def _times(span: Span) -> dict[str, float]:
    return {"since": span.since / MICROSECONDS, "until": span.until / MICROSECONDS}


def _count(context: CallContext, span: Span, by: ReportBy) -> UsageCount:
    from vgpumgr.showback.usage_count import UsageCount

    return UsageCount(context.app.ledger.usage_history(*_times(span).values()), by)


def _priced(context: CallContext, span: Span, by: ReportBy) -> list[PricedLine]:
    from vgpumgr.showback.priced_usage import priced, priced_spans

    spans = priced_spans(context.app.ledger.price_books(), span)
    count = _count(context, span, by)
    return [line for each in spans for line in priced(count.lines(each.span), each.book)]


def _told(
    lines: Sequence[ReportLine], decimals: int, scope: Scope
) -> Iterator[tuple[UsageReportLine, Decimal]]:
    """The lines that may be seen, with their amounts. They are rounded among all lines, so that a
    tenant reads the same as who sees all.
    """
    from vgpumgr.showback.priced_usage import HOUR, apportioned

    hours = apportioned([each.gpu_time / HOUR for each in lines], _HOUR_DIGITS)
    amounts = apportioned([each.cost for each in lines], decimals)
    for line, hour, amount in zip(lines, hours, amounts, strict=True):
        if _is_shown(line.key, scope):
            yield _line(line, hour), amount


def _is_shown(key: UsageKey | None, scope: Scope) -> bool:
    return scope.is_all if key is None else key.tenant in scope


def _line(line: ReportLine, hours: Decimal) -> UsageReportLine:
    key = line.key or UsageKey()
    return {
        "tenant": key.tenant,
        "pool": key.pool,
        "vm": key.vm,
        "vm_id": key.vm_id,
        "model": line.model,
        "idle": line.key is None,
        "gpu_hours": f"{hours:f}",
        "gpu_microseconds": str(line.gpu_time),
    }


def _sums(lines: Sequence[Any]) -> dict[str, str]:
    zero = Decimal(0).scaleb(-_HOUR_DIGITS)
    exact = sum((Fraction(each["gpu_microseconds"]) for each in lines), Fraction())
    hours = sum((Decimal(each["gpu_hours"]) for each in lines), zero)
    return {"gpu_hours": f"{hours:f}", "gpu_microseconds": str(exact)}


REPORT_USAGE = Endpoint(
    name="report.usage",
    method=HttpMethod.GET,
    path="/reports/usage",
    permission=Permission.REPORT_READ,
    summary="GPU time by tenant, VM or pool, and what was idle.",
    asks=ReportAsked,
    answers=UsageReport,
    kind="UsageReport",
    work=report_usage,
    runs=Runs.WORKER,
    scoped=True,
)
REPORT_COST = Endpoint(
    name="report.cost",
    method=HttpMethod.GET,
    path="/reports/cost",
    permission=Permission.REPORT_READ,
    summary="What GPU time cost, by tenant, VM or pool.",
    asks=ReportAsked,
    answers=CostReport,
    kind="CostReport",
    work=report_cost,
    runs=Runs.WORKER,
    scoped=True,
)
REPORT_FOCUS = Endpoint(
    name="report.focus",
    method=HttpMethod.GET,
    path="/reports/focus",
    permission=Permission.REPORT_READ,
    summary="What GPU time cost, as rows of FOCUS 1.2.",
    asks=FocusAsked,
    answers=FocusReport,
    kind="FocusReport",
    work=report_focus,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (REPORT_USAGE, REPORT_COST, REPORT_FOCUS)

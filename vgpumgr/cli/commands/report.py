"""The commands `report usage`, `cost` and `focus`: who had which GPU time, and what it cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.options import ago
from vgpumgr.cli.output import (
    Column,
    Item,
    chosen_format,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.terminal import echo
from vgpumgr.endpoints.reports import (
    REPORT_COST,
    REPORT_FOCUS,
    REPORT_USAGE,
    By,
    FocusAsked,
    ReportAsked,
)
from vgpumgr.model.json_times import time_text

F = TypeVar("F", bound=Callable[..., Any])
_BY: tuple[By, ...] = ("tenant", "vm", "pool")
_TIME = "30d (ago), 2026-11-01, or 2026-11-01T00:00Z."


def _span_options(command: F) -> F:
    command = click.option(
        "--to", "until", callback=ago, metavar="TIME", help="Up to then; default: now."
    )(command)
    return click.option(
        "--from", "since", callback=ago, required=True, metavar="TIME", help=f"Since: {_TIME}"
    )(command)


_by_option = click.option(
    "--by",
    type=click.Choice(_BY),
    default="tenant",
    show_default=True,
    help="What has a line of its own.",
)


@click.group()
def report() -> None:
    """GPU time and what it cost: usage, cost, focus."""


@report.command()
@_span_options
@_by_option
@list_options
@pass_context
def usage(context: Context, since: float, until: float | None, by: By) -> None:
    """Show how much GPU time each tenant, VM or pool had.

    A GPU hour is an hour of a whole board; a vGPU counts by its share of the board, from its
    reservation to its release. What no VM held is idle: together it is all that the fleet had.
    """
    asked = ReportAsked(since=since, until=until, by=by)
    _print("UsageReport", context.read(REPORT_USAGE, asked).answer, _columns(by))


@report.command()
@_span_options
@_by_option
@list_options
@pass_context
def cost(context: Context, since: float, until: float | None, by: By) -> None:
    """Show what GPU time cost, at the prices of its time (`price list`)."""
    found = context.read(REPORT_COST, ReportAsked(since=since, until=until, by=by)).answer
    amount = Column(found["currency"] or "AMOUNT", "amount")
    _print("CostReport", found, (*_columns(by), amount))


@report.command()
@_span_options
@output_option
@pass_context
def focus(context: Context, since: float, until: float | None) -> None:
    """Print what GPU time cost as CSV with the columns of FOCUS 1.2, for tools that read it."""
    found = context.read(REPORT_FOCUS, FocusAsked(since=since, until=until)).answer
    if chosen_format().name in {"table", "wide", "csv"}:
        _echo_rows(found["lines"])
    else:
        print_item("FocusReport", found, "")


def _columns(by: By) -> tuple[Column, ...]:
    of = {
        "tenant": (),
        "pool": (Column("POOL", "pool"),),
        "vm": (Column("POOL", "pool"), Column("VM", "vm"), Column("ID", "vm_id", wide=True)),
    }
    return (
        Column("TENANT", _tenant),
        *of[by],
        Column("MODEL", "model"),
        Column("GPU-HOURS", "gpu_hours"),
        Column("EXACT", "gpu_microseconds", wide=True),
    )


def _tenant(item: Item) -> str:
    return "(idle)" if item["idle"] else str(item["tenant"])


def _print(kind: str, found: Mapping[str, Any], columns: Sequence[Column]) -> None:
    """The lines; for people with their sum, for programs as one object."""
    match chosen_format().name:
        case "json" | "yaml" | "name":
            print_item(kind, found, "")
        case "csv":
            print_list(kind, found["lines"], columns)
        case _:
            print_list(kind, [*found["lines"], _sum(found)], columns)
            say(f"from {time_text(found['since'])} to {time_text(found['until'])}")


def _sum(found: Mapping[str, Any]) -> Item:
    nothing = dict.fromkeys(("pool", "vm", "vm_id", "model"), "")
    return {**nothing, **found, "tenant": "(all)", "idle": False}


def _echo_rows(rows: Sequence[Mapping[str, str]]) -> None:
    from vgpumgr.showback.focus_rows import FOCUS_COLUMNS

    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, FOCUS_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    echo(buffer.getvalue(), nl=False)

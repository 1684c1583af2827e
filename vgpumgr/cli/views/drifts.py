"""Differences between the ledger and the hosts, as ``drift`` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from vgpumgr.cli.output import Column, chosen_format, counted, print_item, print_list, table
from vgpumgr.model.codec import to_plain
from vgpumgr.model.drift import Drift, DriftReport

COLUMNS = (
    Column("HOST", "host"),
    Column("VM", "vm"),
    Column("KIND", "kind"),
    Column("DIFFERENCE", "text"),
    Column("GPU", "gpu", wide=True),
    Column("SUBJECT", "subject", wide=True),
    Column("WANTED", "wanted", wide=True),
    Column("FOUND", "found", wide=True),
    Column("NEXT", "next", wide=True),
)


def print_drifts(found: DriftReport) -> None:
    """A table with the next command below each line; ``-o json`` has what was not read, too."""
    items = [_item(each) for each in found.drifts]
    chosen = chosen_format()
    if chosen.name in {"json", "yaml"}:
        unread = [to_plain(each) for each in found.not_read]
        print_item("DriftList", {"items": items, "not_read": unread}, "")
    elif chosen.name != "table" or chosen.columns:
        print_list("Drift", items, COLUMNS)
    else:
        click.echo("\n".join(_lines(found, items)))


def _item(drift: Drift) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(drift)
    return {"name": f"{drift.host}/{drift.vm or drift.gpu}/{drift.kind}/{drift.subject}", **plain}


def _lines(found: DriftReport, items: list[dict[str, Any]]) -> Iterator[str]:
    if items:
        shown = [column for column in COLUMNS if not column.wide]
        head = [column.title for column in shown]
        first, *rest = table([head, *([c.text(item) for c in shown] for item in items)]).split("\n")
        yield first
        for line, item in zip(rest, items, strict=True):
            yield line
            yield f"    next: {item['next']}"
    for part in found.not_read:
        yield f"not read  {part.host}  {part.part or 'the host'}: {part.why}"
    if not items:
        compared = f"{counted(found.vms, 'VM')} on {counted(found.hosts, 'host')}"
        yield f"no difference{' in what was read' if found.not_read else ''}: {compared}"

"""Differences between the ledger and the hosts, as ``drift`` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vgpumgr.cli.output import Column
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.model.codec import to_plain
from vgpumgr.model.drift import Drift, DriftReport
from vgpumgr.model.words import counted

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
    unread = [to_plain(each) for each in found.not_read]
    text = "\n".join(_lines(found, items))
    print_report("Drift", items, COLUMNS, beside={"not_read": unread}, text=text)


def _item(drift: Drift) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(drift)
    return {"name": f"{drift.host}/{drift.vm or drift.gpu}/{drift.kind}/{drift.subject}", **plain}


def _lines(found: DriftReport, items: list[dict[str, Any]]) -> Iterator[str]:
    yield from report_lines(items, COLUMNS, lambda item: [f"next: {item['next']}"])
    for part in found.not_read:
        yield f"not read  {part.host}  {part.part or 'the host'}: {part.why}"
    if not items:
        compared = f"{counted(found.vms, 'VM')} on {counted(found.hosts, 'host')}"
        yield f"no difference{' in what was read' if found.not_read else ''}: {compared}"

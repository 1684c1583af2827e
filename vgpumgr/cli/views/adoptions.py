"""What could be adopted, as ``adopt`` prints it, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import Column
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.model.codec import to_plain

if TYPE_CHECKING:
    from vgpumgr.engine.adoption.candidate import Candidate, Findings

COLUMNS = (
    Column("HOST", "host"),
    Column("DOMAIN", "domain"),
    Column("POWER", "power"),
    Column("GPUS", "gpus"),
    Column("ADOPT", "possible"),
    Column("WHY", "why", wide=True),
    Column("NOTES", "notes", wide=True),
)


def print_adoptable(found: Findings) -> None:
    """A table of domains, then what no domain names; every line with what helps."""
    items = [candidate_item(each) for each in found.candidates]
    loose = [to_plain(each) for each in found.loose]
    beside = {"loose": loose, "not_read": list(found.not_read)}
    text = "\n".join(_lines(found, items))
    print_report("Adoptable", items, COLUMNS, beside=beside, text=text)


def candidate_item(found: Candidate) -> dict[str, Any]:
    """The JSON of one domain; ``vm`` is the document of the VM that it would be."""
    from vgpumgr.spec.dump import vm_document

    return {
        "name": f"{found.host}/{found.name}",
        "host": found.host,
        "domain": found.name,
        "power": "running" if found.running else "off",
        "gpus": [f"{each.offer.profile} on {each.parent or each.device}" for each in found.parts],
        "possible": found.possible,
        "why": list(found.why),
        "notes": list(found.notes),
        "vm": vm_document(found.spec) if found.spec else None,
    }


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"cannot: {why}" for why in item["why"])
    yield from (f"note: {note}" for note in item["notes"])
    if item["possible"]:
        yield f"next: vgpumgr adopt {item['host']} --vm {item['domain']} --apply"


def _lines(found: Findings, items: list[dict[str, Any]]) -> Iterator[str]:
    yield from report_lines(items, COLUMNS, _below)
    for each in found.loose:
        yield f"{each.host}  {each.text}"
        yield f"    next: {each.next}"
    yield from (f"not read  {line}" for line in found.not_read)
    if not items and not found.loose:
        yield "nothing to adopt"

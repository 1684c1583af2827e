"""What could be adopted, as ``adopt`` prints it, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.output import Column, chosen_format, print_item, print_list, table
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


def print_findings(found: Findings) -> None:
    """A table of domains, then what no domain names; every line with what helps."""
    items = [candidate_item(each) for each in found.candidates]
    chosen = chosen_format()
    if chosen.name in {"json", "yaml"}:
        loose = [to_plain(each) for each in found.loose]
        item = {"items": items, "loose": loose, "not_read": list(found.not_read)}
        print_item("AdoptableList", item, "")
    elif chosen.name != "table" or chosen.columns:
        print_list("Adoptable", items, COLUMNS)
    else:
        click.echo("\n".join(_lines(found, items)))


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


def _lines(found: Findings, items: list[dict[str, Any]]) -> Iterator[str]:
    if items:
        shown = [column for column in COLUMNS if not column.wide]
        head = [column.title for column in shown]
        first, *rest = table([head, *([c.text(item) for c in shown] for item in items)]).split("\n")
        yield first
        for line, item in zip(rest, items, strict=True):
            yield line
            yield from (f"    cannot: {why}" for why in item["why"])
            yield from (f"    note: {note}" for note in item["notes"])
            if item["possible"]:
                yield f"    next: vgpumgr adopt {item['host']} --vm {item['domain']} --apply"
    for each in found.loose:
        yield f"{each.host}  {each.text}"
        yield f"    next: {each.next}"
    yield from (f"not read  {line}" for line in found.not_read)
    if not items and not found.loose:
        yield "nothing to adopt"

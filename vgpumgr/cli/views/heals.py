"""Remedies as ``heal`` prints them: what it would do, and what only an operator can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import Column, print_item
from vgpumgr.cli.views.outcomes import outcome_item, outcome_text
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.model.codec import to_plain
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.heal import Remedy
    from vgpumgr.engine.heal.report import Healed, HealPlan

COLUMNS = (
    Column("HOST", "host"),
    Column("VM", "vm"),
    Column("KIND", "kind"),
    Column("BY", "by"),
    Column("REMEDY", "remedy"),
    Column("DIFFERENCE", "text", wide=True),
    Column("SUBJECT", "subject", wide=True),
    Column("GPU", "gpu", wide=True),
    Column("NEXT", "next", wide=True),
)


def print_plan(planned: HealPlan) -> None:
    """A table, with what to type below each line that heal does nothing about."""
    items = [_item(each) for each in planned.remedies]
    unread = [to_plain(each) for each in planned.not_read]
    text = plan_text(planned)
    print_report("Heal", items, COLUMNS, beside={"not_read": unread}, text=text)


def plan_text(planned: HealPlan) -> str:
    """The same for people."""
    return "\n".join(_lines(planned, [_item(each) for each in planned.remedies]))


def print_healed(healed: Healed) -> None:
    """What was done, and what is left."""
    left = [_item(each) for each in healed.left.remedies]
    errors = [each.message for each in healed.errors]
    item = {**outcome_item(healed.outcome), "left": left, "errors": errors}
    done = outcome_text(healed.outcome)
    words = [*([done] if done else []), *errors, "left:" if left else "", plan_text(healed.left)]
    print_item("Heal", item, "\n".join(each for each in words if each))


def _item(remedy: Remedy) -> dict[str, Any]:
    found = remedy.drift
    return {
        "name": f"{found.host}/{found.vm or found.gpu}/{found.kind}/{found.subject}",
        "host": found.host,
        "gpu": found.gpu,
        "vm": found.vm,
        "subject": found.subject,
        "kind": str(found.kind),
        "text": found.text,
        "by": "heal" if remedy.ours else "nobody" if remedy.way == "leave" else "you",
        "way": str(remedy.way),
        "remedy": remedy.text,
        "next": remedy.next,
    }


def _below(item: Mapping[str, Any]) -> Iterator[str]:
    yield item["text"]
    if item["next"]:
        yield f"next: {item['next']}"


def _lines(planned: HealPlan, items: list[dict[str, Any]]) -> Iterator[str]:
    yield from report_lines(items, COLUMNS, _below)
    for part in planned.not_read:
        yield f"not read  {part.host}  {part.part or 'the host'}: {part.why}"
    if not items:
        compared = f"{counted(planned.vms, 'VM')} on {counted(planned.hosts, 'host')}"
        yield f"nothing to heal{' in what was read' if planned.not_read else ''}: {compared}"

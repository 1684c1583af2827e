"""Reports as printed: rows with advice below them, and the findings of `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import Column, chosen_format, print_item, print_list, table
from vgpumgr.cli.terminal import echo
from vgpumgr.model.examination import CheckOutcome, Finding

Below = Callable[[Mapping[str, Any]], Iterable[str]]


def print_report(
    kind: str,
    items: Sequence[dict[str, Any]],
    columns: Sequence[Column],
    *,
    beside: Mapping[str, object],
    text: str,
) -> None:
    """``text`` for people; ``beside`` goes beside the items for programs."""
    chosen = chosen_format()
    if chosen.name in {"json", "yaml"}:
        print_item(f"{kind}List", {"items": list(items), **beside}, "")
    elif chosen.name != "table" or chosen.columns:
        print_list(kind, items, columns)
    else:
        echo(text)


def report_lines(
    items: Sequence[Mapping[str, Any]], columns: Sequence[Column], below: Below
) -> Iterator[str]:
    """A table whose lines have those of ``below`` under them, set in."""
    if not items:
        return
    shown = [column for column in columns if not column.wide]
    rows = [[column.title for column in shown], *([c.text(item) for c in shown] for item in items)]
    first, *rest = table(rows).split("\n")
    yield first
    for line, item in zip(rest, items, strict=True):
        yield line
        yield from (f"    {each}" for each in below(item))


_WORDS = {
    CheckOutcome.OK: "ok",
    CheckOutcome.WARN: "warn",
    CheckOutcome.BAD: "BAD",
    CheckOutcome.UNKNOWN: "?",
}
_MARK_WIDTH = 4
_SHOWN = (CheckOutcome.BAD, CheckOutcome.WARN, CheckOutcome.UNKNOWN)


def print_findings(name: str, findings: Sequence[Finding]) -> None:
    """The table of one host, or of everything (``name`` is ``doctor``)."""
    items = [finding_item(each) for each in findings]
    print_item("Diagnosis", {"name": name, "items": items}, findings_text(findings))


def finding_item(finding: Finding) -> dict[str, Any]:
    """The JSON of a finding."""
    return {
        "check": finding.check,
        "mark": str(finding.mark),
        "ok": finding.ok,
        "text": finding.text,
        "next": finding.next,
        "by_hand": finding.by_hand,
    }


def findings_text(findings: Sequence[Finding]) -> str:
    """One line for each, with the commands that help below it."""
    width = max((len(each.check) for each in findings), default=0)
    return "\n".join(line for each in findings for line in _lines(each, width))


def summary(findings: Sequence[Finding]) -> str:
    """``2 bad, 1 warn``; empty when all is well."""
    counts = {mark: sum(each.mark is mark for each in findings) for mark in _SHOWN}
    return ", ".join(f"{count} {mark}" for mark, count in counts.items() if count)


def _lines(finding: Finding, width: int) -> list[str]:
    mark = _WORDS[finding.mark].ljust(_MARK_WIDTH)
    below = " " * (_MARK_WIDTH + width + 3)
    helps = [("next", finding.next), ("by hand", finding.by_hand)]
    return [
        f"{mark} {finding.check:<{width}}  {finding.text}",
        *(f"{below}{label}: {text}" for label, text in helps if text),
    ]

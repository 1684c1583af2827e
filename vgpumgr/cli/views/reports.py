"""Reports as printed: rows with advice below them, and the findings of `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import Column, chosen_format, print_item, print_list, table
from vgpumgr.cli.terminal import echo
from vgpumgr.endpoints.diagnoses import FindingItem
from vgpumgr.endpoints.drifts import UnreadItem
from vgpumgr.model.formats import counted

Below = Callable[[Mapping[str, Any]], Iterable[str]]


def print_report(
    kind: str,
    items: Sequence[Mapping[str, Any]],
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


def unread_lines(parts: Iterable[UnreadItem]) -> Iterator[str]:
    """A line per part of a host that was not read."""
    for part in parts:
        yield f"not read  {part['host']}  {part['part'] or 'the host'}: {part['why']}"


def compared_text(nothing: str, found: Mapping[str, Any]) -> str:
    """``no difference: 4 VMs on 2 hosts``."""
    compared = f"{counted(found['vms'], 'VM')} on {counted(found['hosts'], 'host')}"
    return f"{nothing}{' in what was read' if found['not_read'] else ''}: {compared}"


_WORDS = {"ok": "ok", "warn": "warn", "bad": "BAD", "unknown": "?"}
_MARK_WIDTH = 4


def print_findings(name: str, findings: Sequence[FindingItem]) -> None:
    """The table of one host, or of everything (``name`` is ``doctor``)."""
    print_item("Diagnosis", {"name": name, "items": findings}, findings_text(findings))


def findings_text(findings: Sequence[FindingItem]) -> str:
    """One line for each, with the commands that help below it."""
    width = max((len(each["check"]) for each in findings), default=0)
    return "\n".join(line for each in findings for line in _lines(each, width))


def _lines(finding: FindingItem, width: int) -> list[str]:
    mark = _WORDS[finding["mark"]].ljust(_MARK_WIDTH)
    below = " " * (_MARK_WIDTH + width + 3)
    helps = [("next", finding["next"]), ("by hand", finding["by_hand"])]
    return [
        f"{mark} {finding['check']:<{width}}  {finding['text']}",
        *(f"{below}{label}: {text}" for label, text in helps if text),
    ]

"""Reports line by line: a table with what helps below each line, and what else programs want."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import Column, chosen_format, print_item, print_list, table
from vgpumgr.cli.terminal import echo

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

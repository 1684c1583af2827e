"""Data on stdout: aligned tables for people, json, yaml, csv and names for programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from vgpumgr import API_VERSION
from vgpumgr.cli import terminal
from vgpumgr.cli.terminal import echo, echo_json, one_line
from vgpumgr.model.errors import UsageError
from vgpumgr.model.json_times import timed

FORMATS = ("table", "wide", "json", "yaml", "csv", "name")
# Where the root command leaves what is to be said after every list.
AFTER_LISTS = "vgpumgr.after-lists"
# A table keeps so many columns; a last one that is longer than a sentence's least goes on below.
_FEWEST, _SENTENCE = 3, 24
Item = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Column:
    """A table column: its title and the item's key, or a function of the item.

    ``spare``: the first to be left out where the terminal is too narrow.
    """

    title: str
    value: str | Callable[[Item], object]
    wide: bool = False
    spare: bool = False

    def text(self, item: Item) -> str:
        """The cell."""
        found = self.value(item) if callable(self.value) else item.get(self.value)
        if found is None or found == "":
            return "-"
        if isinstance(found, bool):
            return "yes" if found else "no"
        if isinstance(found, list | tuple):
            return one_line(",".join(map(str, found))) or "-"
        return one_line(str(found))


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What the user chose with ``-o`` and ``--columns``."""

    name: str = "table"
    columns: tuple[str, ...] = ()


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    ctx.meta.setdefault("vgpumgr.output", {})[param.name] = value


def list_options(command: F) -> F:
    """Add ``-o`` and ``--columns`` to a command that prints a list."""
    command = click.option(
        "--columns",
        metavar="A,B",
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="Only these columns, by title.",
    )(command)
    return output_option(command)


def output_option(command: F) -> F:
    """Add ``-o`` to a command that prints one object; :func:`chosen_format` reads it."""
    return click.option(
        "-o",
        "--output",
        "format_name",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="Output format.",
    )(command)


def chosen_format() -> OutputFormat:
    """The ``-o`` and ``--columns`` of the running command."""
    chosen = click.get_current_context().meta.get("vgpumgr.output", {})
    columns = tuple(
        part.strip().upper() for part in (chosen.get("columns") or "").split(",") if part
    )
    return OutputFormat(chosen.get("format_name") or "table", columns)


def say(text: str) -> None:
    """A line for people on stderr; silent with ``-o json``, where stderr holds one error object."""
    if chosen_format().name != "json":
        echo(terminal.fitted(text, terminal.width(sys.stderr)), err=True)


def print_list(
    kind: str, items: Sequence[Item], columns: Sequence[Column], *, more: bool = False
) -> None:
    """Print a list in the chosen format. ``more``: it stopped at its limit, which is said."""
    chosen = chosen_format()
    picked = _picked(columns, chosen)
    cut = {"more": True} if more else {}
    whole = {"apiVersion": API_VERSION, "kind": f"{kind}List", **cut, "items": list(items)}
    match chosen.name:
        case "json":
            _echo_json(whole)
        case "yaml":
            _echo_yaml(whole)
        case "name":
            for item in items:
                echo(one_line(item["name"]))
        case "csv":
            _echo_csv(items, picked)
        case _:
            _echo_table(items, picked)
    if more:
        say(f"only the newest {len(items)} are shown: --limit 0 for all")
    click.get_current_context().meta.get(AFTER_LISTS, lambda: None)()


def print_item(kind: str, item: Item, text: str) -> None:
    """Print one object: ``text`` for people, the item for programs."""
    match chosen_format().name:
        case "json":
            _echo_json({"apiVersion": API_VERSION, "kind": kind, **item})
        case "yaml":
            _echo_yaml({"apiVersion": API_VERSION, "kind": kind, **item})
        case "name":
            echo(one_line(item["name"]))
        case _:
            if text:
                echo(terminal.fitted(text, terminal.width()))


def tell_people(text: str) -> None:
    """What people see on stdout before the end; programs get it in the one object at the end."""
    if chosen_format().name in {"table", "wide"} and text:
        echo(terminal.fitted(text, terminal.width()))


def fields(pairs: Sequence[tuple[str, object]]) -> str:
    """``Label:  value`` lines, aligned; empty values are left out."""
    shown = [(label, value) for label, value in pairs if value not in (None, "", [], {})]
    width = max((len(label) for label, _ in shown), default=0) + 1
    below = "\n" + " " * (width + 2)
    return "\n".join(
        f"{label + ':':<{width}}  {str(value).replace(chr(10), below)}" for label, value in shown
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows aligned in columns, two blanks between; what is too long for the terminal goes on below
    the last column.
    """
    if not rows:
        return ""
    widths = _widths(rows)
    lines = []
    for row in rows:
        head = "".join(f"{cell:<{wide}}  " for cell, wide in zip(row, widths[:-1], strict=False))
        lines.append(terminal.hung(head, row[-1]).rstrip())
    return "\n".join(lines)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _picked(columns: Sequence[Column], chosen: OutputFormat) -> list[Column]:
    """The columns to print; UsageError for a title that is none, whatever the format."""
    if not chosen.columns:
        return [column for column in columns if not column.wide or chosen.name in {"wide", "csv"}]
    by_title = {column.title: column for column in columns}
    for title in chosen.columns:
        if title not in by_title:
            raise UsageError(f"no column {title}", next=f"columns: {', '.join(by_title)}")
    return [by_title[title] for title in chosen.columns]


def _echo_table(items: Sequence[Item], columns: Sequence[Column]) -> None:
    if not items:
        say("nothing to list")
        return
    shown = _that_fit(items, columns)
    echo(table([[column.title for column in shown], *_cells(items, shown)]))
    if len(shown) < len(columns):
        left_out = ", ".join(each.title for each in columns if each not in shown)
        say(f"the terminal is too narrow for: {left_out} (-o wide has all)")


def _cells(items: Sequence[Item], columns: Sequence[Column]) -> list[list[str]]:
    return [[column.text(item) for column in columns] for item in items]


def _that_fit(items: Sequence[Item], columns: Sequence[Column]) -> list[Column]:
    """All, but on a terminal that is too narrow for them, where nobody chose."""
    limit, chosen = terminal.width(), chosen_format()
    shown = list(columns)
    if limit is None or chosen.columns or chosen.name == "wide":
        return shown
    while len(shown) > _FEWEST and not _fits(items, shown, limit):
        spare = [each for each in shown if each.spare]
        shown.remove((spare or shown)[-1])
    return shown


def _fits(items: Sequence[Item], columns: Sequence[Column], limit: int) -> bool:
    """With sentences in the last column as short as they may be made."""
    widths = _widths([[column.title for column in columns], *_cells(items, columns)])
    last = _SENTENCE if widths[-1] > _SENTENCE else widths[-1]
    return sum(widths[:-1]) + 2 * (len(widths) - 1) + last <= limit


def _echo_csv(items: Sequence[Item], columns: Sequence[Column]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.title.lower() for column in columns])
    writer.writerows([column.text(item) for column in columns] for item in items)
    echo(buffer.getvalue(), nl=False)


def _echo_json(data: object) -> None:
    echo_json(timed(data), indent=2)


def _echo_yaml(data: object) -> None:
    import yaml

    echo(yaml.safe_dump(json.loads(json.dumps(timed(data))), sort_keys=False), nl=False)

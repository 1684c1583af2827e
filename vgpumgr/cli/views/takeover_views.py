"""Takeovers as printed: a VM per line, below it what is changed and lost, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgpumgr.cli.output import Column
from vgpumgr.cli.views.reports import print_report, report_lines
from vgpumgr.endpoints.takeovers import TakeoverItem
from vgpumgr.model.formats import counted, size_words


def _gpus(item: Mapping[str, Any]) -> list[str]:
    gpus = (item["vm"] or {}).get("gpus", [])
    return [
        f"{each['profile']} ×{each['count']}" if "count" in each else each["profile"]
        for each in gpus
    ]


def _ready(item: Mapping[str, Any]) -> str:
    if item["there"]:
        return "there"
    return "no" if item["problems"] else "yes"


COLUMNS = (
    Column("VM", "name"),
    Column("FROM", lambda item: item["source"].rpartition("/")[2]),
    Column("VCPUS", lambda item: (item["vm"] or {}).get("vcpus")),
    Column("MEMORY", lambda item: (item["vm"] or {}).get("memory")),
    Column("GPUS", _gpus),
    Column("DISKS", lambda item: len(item["disks"])),
    Column("KEPT", "kept"),
    Column("CHANGED", "changed"),
    Column("LOST", "lost"),
    Column("READY", _ready),
    Column("TITLE", "title", wide=True),
    Column("PROBLEMS", "problems", wide=True),
)


def print_takeover(items: Sequence[TakeoverItem], *, every_key: bool) -> None:
    """A table, with the keys that are changed or lost below each VM; the kept ones where asked."""
    text = "\n".join(report_lines(items, COLUMNS, lambda item: _below(item, every_key)))
    print_report("Takeover", items, COLUMNS, beside={}, text=text)


def _below(item: Mapping[str, Any], every_key: bool) -> Iterator[str]:
    yield from (f"cannot: {each}" for each in item["problems"])
    if item["there"]:
        yield "the fleet has it already"
        return
    shown = [each for each in item["findings"] if every_key or each["fate"] != "kept"]
    width = max((len(each["key"]) for each in shown), default=0)
    for fate in ("kept", "changed", "lost"):
        for each in shown:
            if each["fate"] == fate:
                yield f"{fate:<8} {each['key']:<{width}}  {each['text']}"
    if item["vm"] is None or item["problems"]:
        return
    yield f"first    {item['stop']}   (on the source)"
    for disk in item["disks"]:
        size = f" of {size_words(disk['size_bytes'])}" if disk["size_bytes"] else ""
        yield f"disk     {disk['key']}{size}: {disk['fetch']}"


def taken_text(items: Sequence[Mapping[str, Any]]) -> str:
    """``cad-01  running on h1, 1 disk copied``, a line for each."""
    width = max((len(each["name"]) for each in items), default=0)
    return "\n".join(f"{each['name']:<{width}}  {_taken(each)}" for each in items)


def _taken(item: Mapping[str, Any]) -> str:
    match item["state"]:
        case "there":
            return "was there already"
        case "planned":
            return f"would go to {item['host']}"
        case "taken over":
            where = f" on {item['host']}" if item["host"] else ""
            return f"running{where}, {counted(item['disks'], 'disk')} copied"
        case _:
            return f"not taken over: {item['error']}"

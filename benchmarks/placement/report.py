"""The results as a page of Markdown with charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.placement import tables
from benchmarks.placement.curves import Picture, by_demand, by_setting
from benchmarks.placement.summary import SETTING
from benchmarks.placement.svg import chart

Document = Mapping[str, Any]


def write_report(folder: Path, name: str, document: Document) -> None:
    """``NAME.md`` and its charts into the folder, from the JSON's content."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# Placement: {name}", ""]
    lines += tables.overview(document["results"])
    rows = document["summary"]
    lines += drawn(folder, name, by_setting(rows))
    for workload, variant in dict.fromkeys(tuple(row[key] for key in SETTING) for row in rows):
        mine = [row for row in rows if (row["workload"], row["variant"]) == (workload, variant)]
        lines += ["", f"## {workload}, {variant}", "", *tables.policies(mine)]
        lines += ["", *tables.refusals(mine)]
        if variant == "plain":
            lines += tables.bounds(document["bound"].get(workload, {}))
            lines += drawn(folder, name, by_demand(workload, mine))
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def drawn(folder: Path, name: str, pictures: Iterator[Picture]) -> Iterator[str]:
    """The charts into the folder; the lines that show them."""
    for picture in pictures:
        file = f"{name}-{picture.name}.svg"
        text = chart(picture.title, picture.axes, picture.lines, picture.bottom)
        (folder / file).write_text(text, encoding="utf-8")
        yield from ("", f"![{picture.title}]({file})")

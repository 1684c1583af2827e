"""Writes the tables of docs/metrics.md: every row of the contract, every alert, every figure.

What stands between two marks in the page is from the code; the rest is written by hand. ``--check``
writes nothing and exits 1 where the page is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from vgpumgr.helper.figure_table import GPU_FIGURES, INSTANCE_FIGURES, VGPU_FIGURES, Figure
from vgpumgr.telemetry.alert_rules import RECORDED, alerts
from vgpumgr.telemetry.contract import CONTRACT, OWN_FAMILIES, ContractRow

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
_MARKED = re.compile(r"(?s)<!-- ([a-z]+) -->\n.*?<!-- end -->")
_FIGURES = (*GPU_FIGURES, *VGPU_FIGURES, *INSTANCE_FIGURES)


def text(page: str) -> str:
    """The page, as it is to be."""
    return _MARKED.sub(_table, page)


def _table(found: re.Match[str]) -> str:
    lines = "\n".join(_TABLES[found[1]]())
    return f"<!-- {found[1]} -->\n{lines}\n<!-- end -->"


def _series() -> Iterator[str]:
    yield "| # | series | type | labels | from | meaning |"
    yield "|---" * 6 + "|"
    for row in CONTRACT:
        source = row.source or "nothing yet: there is no such series"
        for family in row.families:
            cells = (
                str(row.number),
                f"`{family.name}`",
                f"`{family.kind}`",
                _labels(row, family.name),
                source,
                family.help,
            )
            yield f"| {' | '.join(cells)} |"
    for family in OWN_FAMILIES:
        yield f"| – | `{family.name}` | `{family.kind}` | | the sampler | {family.help} |"


def _labels(row: ContractRow, family: str) -> str:
    """The labels; those of a figure with the values that there are."""
    shown: dict[str, dict[str, bool]] = {}
    for figure in _FIGURES:
        for key, value in figure.labels if figure.family == family else ():
            detail = shown.setdefault(key, {}).get(value, True)
            shown[key][value] = detail and figure.detail
    known = {
        key: "|".join(f"{value}+" if detail else value for value, detail in values.items())
        for key, values in shown.items()
    }
    return " ".join(
        f"`{name}={known[name]}`" if name in known else f"`{name}`" for name in row.labels
    ).replace("|", "\\|")


def _figures() -> Iterator[str]:
    yield "| of | figure | at most | series |"
    yield "|---" * 4 + "|"
    tables = {"a GPU": GPU_FIGURES, "a vGPU": VGPU_FIGURES, "a GPU instance": INSTANCE_FIGURES}
    for name, table in tables.items():
        for figure in table:
            yield f"| {name} | `{figure.name}` | {figure.most:,.0f} | `{_of_figure(figure)}` |"


def _of_figure(figure: Figure) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in figure.labels)
    return f"{figure.family}{{{labels}}}" if labels else figure.family


def _alerts() -> Iterator[str]:
    yield "| alert | severity | for | is raised when |"
    yield "|---" * 4 + "|"
    for each in alerts():
        summary = re.sub(r"{{ \$(?:labels\.)?(\w+) }}", lambda found: f"*{found[1]}*", each.summary)
        yield f"| `{each.name}` | {each.severity} | {each.lasts or 'at once'} | {summary} |"


def _recorded() -> Iterator[str]:
    yield "| series | is |"
    yield "|---" * 2 + "|"
    for each in RECORDED:
        yield f"| `{each.name}` | `{each.expr}` |"


_TABLES: Mapping[str, Callable[[], Iterator[str]]] = MappingProxyType(
    {"series": _series, "figures": _figures, "alerts": _alerts, "recorded": _recorded}
)


def main() -> int:
    """Write the page, or say that it is out of date."""
    now = PAGE.read_text()
    wanted = text(now)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if now != wanted:
        print(f"{PAGE.name} is not what the code says")
    return int(now != wanted)


if __name__ == "__main__":
    sys.exit(main())

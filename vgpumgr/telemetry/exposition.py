"""Prometheus' text format, written by ourselves: the text of a series' labels is made once.

Source: Prometheus documentation, exposition formats, text format 0.0.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from vgpumgr.telemetry.contract import FAMILIES, HISTOGRAM, ORDER

Labels = Mapping[str, str]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HEADS = {
    each.name: f"# HELP {each.name} {each.help}\n# TYPE {each.name} {each.kind}\n"
    for each in FAMILIES
}
_HISTOGRAMS = frozenset(each.name for each in FAMILIES if each.kind == HISTOGRAM)


def label_text(labels: Labels) -> str:
    """``host="h1",gpu="0"``: what text a host or a user has chosen stays inside its quotes."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def head_text(name: str, *labels: str) -> str:
    """All of a line that comes before its value, from texts of labels that are not empty."""
    inside = ",".join(filter(None, labels))
    return f"{name}{{{inside}}} " if inside else f"{name} "


def value_text(value: float) -> str:
    """A value; whole numbers as they are."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


class Exposition:
    """Lines of series by family; a family that the contract does not have is an error of ours."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def lines(self, family: str) -> list[str]:
        """The lines of a family, to be added to."""
        found = self._lines.get(family)
        if found is None:
            assert family in ORDER, f"{family} is in no row of the contract"
            found = self._lines[family] = []
        return found

    def add(self, family: str, labels: str, value: float) -> None:
        """One series."""
        self.lines(family).append(head_text(family, labels) + value_text(value))

    def add_histogram(
        self, family: str, labels: str, bounds: Iterable[float], counts: Iterable[int], total: float
    ) -> None:
        """A histogram: ``counts`` by bound and then beyond the last, ``total`` of what was seen."""
        assert family in _HISTOGRAMS
        lines, seen, each_of = self.lines(family), 0, iter(counts)
        for bound, count in zip((*bounds, math.inf), each_of, strict=True):
            seen += count
            text = label_text({"le": value_text(bound)})
            lines.append(f"{head_text(f'{family}_bucket', labels, text)}{seen}")
        lines.append(head_text(f"{family}_sum", labels) + value_text(total))
        lines.append(f"{head_text(f'{family}_count', labels)}{seen}")

    @property
    def series(self) -> int:
        """How many there are."""
        return sum(map(len, self._lines.values()))

    def text(self) -> str:
        """All of it, family by family in the order of the contract."""
        filled = [name for name, lines in self._lines.items() if lines]
        found = sorted(filled, key=ORDER.__getitem__)
        pieces = [f"{_HEADS[name]}{chr(10).join(self._lines[name])}\n" for name in found]
        return "".join(pieces)

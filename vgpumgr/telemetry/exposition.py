"""All series in Prometheus' text format, family by family."""

from __future__ import annotations

import math
from collections.abc import Iterable

from vgpumgr.helper.series_text import family_text, head_text, label_text, value_text
from vgpumgr.telemetry.contract import FAMILIES, HISTOGRAM, ORDER

_HEADS = {each.name: family_text(each) for each in FAMILIES}
_HISTOGRAMS = frozenset(each.name for each in FAMILIES if each.kind == HISTOGRAM)


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

"""All series in Prometheus' text format, family by family."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from vgpumgr.helper.series_text import family_text, head_text, label_text, value_text
from vgpumgr.telemetry.contract import FAMILIES, HISTOGRAM, ORDER

_HEADS = {each.name: f"\n{family_text(each).rstrip()}" for each in FAMILIES}
_HISTOGRAMS = frozenset(each.name for each in FAMILIES if each.kind == HISTOGRAM)


class Exposition:
    """Texts of series by family, each line with its newline before it: so the beginnings of lines,
    which stay, and values can be put together at once in the end.

    A family that the contract does not have is an error of ours.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {}
        self.series = 0

    def _of(self, family: str) -> list[str]:
        found = self._pieces.get(family)
        if found is None:
            assert family in ORDER, f"{family} is in no row of the contract"
            found = self._pieces[family] = []
        return found

    def add(self, family: str, labels: str, value: float) -> None:
        """One series."""
        self.add_text(family, f"\n{head_text(family, labels)}{value_text(value)}")

    def add_text(self, family: str, text: str, series: int = 1) -> None:
        """Lines as they are, each after a newline; ``series`` is how many."""
        if series:
            self._of(family).append(text)
            self.series += series

    def add_column(self, family: str, heads: Sequence[str], values: Sequence[str]) -> None:
        """A series for each of ``heads``, which begin with a newline, and its value."""
        pieces = [""] * (2 * len(heads))
        pieces[::2] = heads
        pieces[1::2] = values
        if pieces:
            self._of(family).extend(pieces)
            self.series += len(heads)

    def add_histogram(
        self, family: str, labels: str, bounds: Iterable[float], counts: Iterable[int], total: float
    ) -> None:
        """A histogram: ``counts`` by bound and then beyond the last, ``total`` of what was seen."""
        assert family in _HISTOGRAMS
        seen = 0
        for bound, count in zip((*bounds, math.inf), counts, strict=True):
            seen += count
            text = label_text({"le": value_text(bound)})
            self.add_text(family, f"\n{head_text(f'{family}_bucket', labels, text)}{seen}")
        total_text = value_text(total)
        self.add_text(family, f"\n{head_text(f'{family}_sum', labels)}{total_text}")
        self.add_text(family, f"\n{head_text(f'{family}_count', labels)}{seen}")

    def text(self) -> str:
        """All of it, family by family in the order of the contract."""
        pieces: list[str] = []
        for name in sorted(self._pieces, key=ORDER.__getitem__):
            pieces.append(_HEADS[name] if pieces else _HEADS[name].lstrip())
            pieces.extend(self._pieces[name])
        return "".join((*pieces, "\n")) if pieces else ""

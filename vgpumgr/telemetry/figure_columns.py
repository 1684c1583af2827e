"""The figures of a fleet as columns: the beginnings of all lines of a figure stay from one round to
the next, and only values are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from vgpumgr.helper.figure_table import Figure
from vgpumgr.helper.series_text import BaseUnit, label_text
from vgpumgr.model.gpu_figures import Figures
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import HeadTexts

Told = tuple[HeadTexts, Figures]
"""What is measured of one thing, and the beginnings of its lines."""


class _Values(dict[int, str]):
    """Values of one figure in the base unit, as text: those of one round are known."""

    def __init__(self, unit: BaseUnit) -> None:
        super().__init__()
        self._unit = unit

    def __missing__(self, figure: int) -> str:
        found = self[figure] = self._unit.text(figure)
        return found


class _Column:
    """The lines of one figure."""

    def __init__(self, figure: Figure) -> None:
        self._family, self._name = figure.family, figure.name
        self._key = (figure.family, label_text(dict(figure.labels)))
        self._unit = BaseUnit(figure.scale)
        self._get = itemgetter(figure.name)
        self._plain = figure.scale == 1
        self._of: Sequence[HeadTexts] = ()
        self._heads: list[str] = []

    def write(self, out: Exposition, heads: list[HeadTexts], every: list[Figures]) -> None:
        """A line for each that tells the figure. ``heads`` is the same list as long as it has the
        same members.
        """
        try:
            values = list(map(self._get, every))
        except KeyError:
            self._write_some(out, heads, every)
            return
        if self._of is not heads:
            self._of, self._heads = heads, [each[self._key] for each in heads]
        out.add_column(self._family, self._heads, self._texts(values))

    def _write_some(self, out: Exposition, heads: list[HeadTexts], every: list[Figures]) -> None:
        """Where others do not tell it."""
        name, key = self._name, self._key
        found = [
            (of[key], told[name]) for of, told in zip(heads, every, strict=True) if name in told
        ]
        texts = self._texts([value for _, value in found])
        out.add_column(self._family, [head for head, _ in found], texts)

    def _texts(self, values: Sequence[int]) -> list[str]:
        if self._plain:
            return list(map(str, values))
        return list(map(_Values(self._unit).__getitem__, values))


class FigureColumns:
    """The columns of a table of figures."""

    def __init__(self, table: Iterable[Figure]) -> None:
        self._columns = [_Column(each) for each in table]
        self._heads: list[HeadTexts] = []

    def write(self, out: Exposition, every: Iterable[Told]) -> None:
        """Every figure that is told."""
        pairs = list(every)
        heads = [head for head, _ in pairs]
        if len(heads) != len(self._heads) or any(
            one is not other for one, other in zip(heads, self._heads, strict=True)
        ):
            self._heads = heads
        told = [figures for _, figures in pairs]
        for column in self._columns:
            column.write(out, self._heads, told)

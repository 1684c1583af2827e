"""Series as Prometheus' text format has them.

Source: Prometheus documentation, exposition formats, text format 0.0.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from vgpumgr.helper.figure_families import Family

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def family_text(family: Family) -> str:
    """The two lines that come before a family's series."""
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"


def label_text(labels: Mapping[str, str]) -> str:
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


class BaseUnit:
    """Writes a figure in the base unit of its family: 87 percent are 0.87, and no sum of fractions
    of it. ``scale`` is that of the figure.
    """

    __slots__ = ("_divisor", "_factor")

    def __init__(self, scale: float) -> None:
        self._divisor = round(1 / scale) if scale < 1 else 1
        self._factor = round(scale) if scale > 1 else 1

    def text(self, figure: int) -> str:
        """The value."""
        if self._divisor == 1:
            return str(figure * self._factor)
        return value_text(figure / self._divisor)

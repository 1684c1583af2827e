"""Durations as users write them: ``90s``, ``30m``, ``4h``, ``2d``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from vgpumgr.spec.fields import refuse

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = r"[0-9]{1,7}[smhd]"
_LONGEST_S = 366 * 86_400


def _duration(value: object) -> object:
    if not isinstance(value, str) or re.fullmatch(_DURATION, value) is None:
        refuse("is not a duration: write a whole number and s, m, h or d, like 4h")
    return value


def _bounded(text: str) -> str:
    if not 1 <= seconds(text) <= _LONGEST_S:
        refuse("must be from 1s to 366d")
    return text


def seconds(text: str) -> int:
    """``4h`` → 14400."""
    return int(text[:-1]) * UNITS[text[-1]]


def duration(count: float) -> str:
    """14400 → ``4h``: as a user would write it."""
    whole = round(count)
    unit = max((u for u, s in UNITS.items() if whole % s == 0), key=UNITS.__getitem__)
    return f"{whole // UNITS[unit]}{unit}"


Duration = Annotated[
    str,
    BeforeValidator(_duration),
    AfterValidator(_bounded),
    Field(json_schema_extra={"pattern": f"^{_DURATION}$"}),
]

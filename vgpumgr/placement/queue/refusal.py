"""Why something did not start, before it is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.queue import Why


@dataclass(frozen=True, slots=True)
class Refusal:
    """``whatever``: it would have been refused however short it were. ``room``: it is room that it
    lacks, so keeping some for it helps.
    """

    why: Why
    text: str
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    whatever: bool = True
    room: bool = False

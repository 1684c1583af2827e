"""Rolling changes: how many VMs of a group change at a time, and when the next may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

WITHIN_S = 300.0
"""How long a wave may take to run again, unless its file says otherwise (seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Of a ``group`` of VMs ``at_once`` are stopped for a change at a time: a *wave*. The next wave
    begins when the VMs of one run again and, with ``agent``, their guest agents answer, which may
    take ``within_s`` seconds.
    """

    group: str
    at_once: int
    agent: bool = False
    within_s: float = WITHIN_S


RollingVms = Mapping[str, Rolling]
"""By VM's name. A VM that is not among them changes with the first wave."""


NOT_ROLLING: RollingVms = MappingProxyType({})


def all_rolling(names: tuple[str, ...], at_once: int, said: RollingVms) -> RollingVms:
    """All these VMs as one group, ``at_once`` at a time; what their file says of them otherwise
    stands.
    """
    return {
        name: Rolling(
            group="",
            at_once=at_once,
            agent=said[name].agent if name in said else False,
            within_s=said[name].within_s if name in said else WITHIN_S,
        )
        for name in names
    }

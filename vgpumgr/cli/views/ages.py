"""Ages of observations and other moments, as printed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from vgpumgr.endpoints.host_looks import answers


def seen_text(look: Mapping[str, Any]) -> str:
    """``12s``, or ``3h, unreachable``: how old a look is, and why there is no newer one."""
    text = age(look["observed_at"])
    return text if answers(look) or look["observed_at"] is None else f"{text}, {look['stale_why']}"


def age(observed_at: float | None) -> str:
    """``12s``, ``5m``, ``3h``, ``2d``; a dash for never."""
    if observed_at is None:
        return "-"
    return _rounded(time.time() - observed_at)


def until(at: float) -> str:
    """``in 3h``, or ``now`` once it has come; Unix seconds."""
    left = at - time.time()
    return f"in {_rounded(left)}" if left > 0 else "now"


def _rounded(span_s: float) -> str:
    seconds = max(0, int(span_s))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"

"""Differences between two policies on the same sequences, and whether they could be chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any


def paired(differences: Sequence[float]) -> dict[str, Any]:
    """Mean, how many are above and below nought, and the sign test's ``p``; needs at least one."""
    return {
        "mean": round(statistics.fmean(differences), 4),
        "better": sum(each > 0 for each in differences),
        "worse": sum(each < 0 for each in differences),
        "p": round(sign_test(differences), 4),
    }


def sign_test(differences: Sequence[float]) -> float:
    """How likely at least so one-sided a split is by chance (two-sided; ties left out)."""
    ups = sum(each > 0 for each in differences)
    downs = sum(each < 0 for each in differences)
    tails = sum(math.comb(ups + downs, k) for k in range(min(ups, downs) + 1))
    return float(min(1.0, 2 * tails / 2 ** (ups + downs)))


def shown(difference: dict[str, Any] | None) -> str:
    """``+0.62 (10:0, p 0.002)``: mean, seeds above and below, p; empty where there is none."""
    if not difference:
        return ""
    return "{mean:+.2f} ({better}:{worse}, p {p:.3f})".format(**difference)

"""Planning anew when somebody else was faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vgpumgr.model.errors import StaleGeneration

T = TypeVar("T")

PLAN_ATTEMPTS = 5


def until_current(attempt: Callable[[], T]) -> T:
    """The result of an attempt that plans and reserves; the last StaleGeneration is raised."""
    for _ in range(PLAN_ATTEMPTS - 1):
        try:
            return attempt()
        except StaleGeneration:
            continue
    return attempt()

"""The whole transaction again, where the database says that it may go through the next time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from vgpumgr.store.faults import TryAgain

P = ParamSpec("P")
T = TypeVar("T")

MOST = 8
_FIRST_S = 0.02
_LONGEST_S = 1.0


def retried(work: Callable[P, T]) -> Callable[P, T]:
    """Call ``work``, which is one transaction, up to MOST times: about 3 s of waiting in all."""

    @wraps(work)
    def again(*args: P.args, **named: P.kwargs) -> T:
        for number in range(MOST - 1):
            try:
                return work(*args, **named)
            except TryAgain:
                # Jittered, so that two who collided do not meet again.
                time.sleep(random.uniform(0.5, 1.0) * min(_FIRST_S * 2**number, _LONGEST_S))  # noqa: S311
        return work(*args, **named)

    return again

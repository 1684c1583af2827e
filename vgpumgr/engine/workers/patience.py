"""How long a worker's host is waited for, and how its work ended: with a value, an error, or
not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from vgpumgr.model.errors import DatabaseFault, DeadlineExceeded
from vgpumgr.model.ports import WAIT_LIMITS, WaitLimits

T = TypeVar("T")
K = TypeVar("K")


def caught(job: Callable[[], T]) -> T | Exception:
    """What it returns or raises."""
    try:
        return job()
    except Exception as error:
        return error


def kept(keep: Callable[[str, T], K], host: str, value: T | Exception) -> K | Exception:
    """A value as ``keep`` keeps it; an error as it is. DatabaseFault is no answer of the host."""
    if isinstance(value, Exception):
        return value
    end = caught(lambda: keep(host, value))
    if isinstance(end, DatabaseFault):
        raise end
    return end


def given_up(host: str, seconds: float) -> DeadlineExceeded:
    """The value of a lane that did not end."""
    return DeadlineExceeded(
        f"{host} did not answer within {seconds:.0f} s",
        why="nothing waits for it any longer",
        next=f"vgpumgr doctor {host}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOfMany:
    """Fulfils ``ports.Waiting`` for hosts of which any will do.

    ``doubted`` are hosts whose last look failed. No other is left out before more than half have
    answered, not counting those that failed at once; nobody of ``named`` ever.
    """

    named: Collection[str] = ()
    doubted: Collection[str] = ()
    waits: WaitLimits = WAIT_LIMITS

    def insists_on(self, host: str) -> bool:
        """Is it waited for, however long the others took?"""
        return host in self.named

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """How much longer to wait, 0 for not at all.

        ``took`` are the seconds that each host took which answered, ``silent`` the seconds for
        which each of the others has been silent.
        """
        return max((self._most_s(host, took, silent) - s for host, s in silent.items()), default=0)

    def _most_s(self, host: str, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        if self.insists_on(host) or not took:
            return self.waits.look_s
        slowest = max(took.values())
        if host in self.doubted:
            return slowest + self.waits.doubted_s
        if len(took) <= len(silent):
            return self.waits.look_s
        return max(self.waits.least_s, self.waits.times * slowest)


class Everyone:
    """Fulfils ``ports.Waiting``: all are waited for, ``within_s`` at most; None: without end."""

    def __init__(self, within_s: float | None) -> None:
        self._within_s = math.inf if within_s is None else within_s

    def insists_on(self, host: str) -> bool:
        """Everybody."""
        return True

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """Until the last one has had its time."""
        return max((self._within_s - s for s in silent.values()), default=0)

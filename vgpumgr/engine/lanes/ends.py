"""How a lane ends: with a value, an error, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vgpumgr.model.errors import DatabaseFault, DeadlineExceeded

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

"""Waiting for something to become true, never longer than a deadline."""

from __future__ import annotations

from collections.abc import Callable

from vgpumgr.helper.system import System

_PAUSE = 0.1


def until(system: System, done: Callable[[], bool], seconds: float, pause: float = _PAUSE) -> bool:
    """Whether ``done`` came true within ``seconds``; it is asked at least once."""
    for _ in range(round(seconds / pause)):
        if done():
            return True
        system.wait(pause)
    return done()

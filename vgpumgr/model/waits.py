"""How long is waited for hosts, beyond the deadlines of single calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """All in seconds, from when a host was asked.

    A host that is one of many is waited for ``least_s``, or ``times`` the slowest answer so far
    where that is longer; ``doubted_s`` more than that answer where its last look failed. A look
    (``look_s``) and work (``work_s``) that shows no life for so long is given up: by then every
    host call was cut by a deadline of its own.
    """

    least_s: float = 5.0
    times: float = 3.0
    doubted_s: float = 2.0
    look_s: float = 300.0
    work_s: float = 900.0


WAITS = Waits()

"""One day under one arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from benchmarks.vdi.estate import Clock, Hosts
from benchmarks.vdi.figures import Figures
from benchmarks.vdi.scene import Times, fleet
from benchmarks.vdi.script import Day, days
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.supply import Fleet


class Arm(Protocol):
    """What serves users."""

    def ask(self, user: str, pool: str) -> None:
        """The user would like a desktop, or the one that was left."""

    def leave(self, user: str, pool: str) -> None:
        """The user goes away and leaves the session."""

    def log_off(self, user: str, pool: str) -> None:
        """The user ends the session, or asks no more."""

    def push(self, pool: str) -> None:
        """The pool gets a new image, a bad one."""

    def lose(self, host: str) -> None:
        """The host loses its power."""


Make = Callable[[Iterable[PoolSpec], Clock, Hosts, Figures], Arm]


def day(
    make: Make, pools: Sequence[PoolSpec], seed: int, hosts: Fleet | None = None
) -> dict[str, Any]:
    """The figures of the day."""
    times = Times()
    clock = Clock(times.begin)
    estate = Hosts(hosts or fleet(), seed)
    figures = Figures(times, estate.units)
    arm = make(pools, clock, estate, figures)
    for each in days(pools, times, seed):
        _plan(clock, arm, each)
    clock.call(times.push, partial(arm.push, pools[0].name))
    clock.call(times.loss, lambda: arm.lose(estate.lost_one(seed)))
    clock.run(times.end)
    return figures.result(times.end)


def _plan(clock: Clock, arm: Arm, each: Day) -> None:
    who = (each.user, each.pool)
    clock.call(each.comes, partial(arm.ask, *who))
    clock.call(each.goes, partial(arm.log_off, *who))
    if each.lunch:
        out, back, off = each.lunch
        clock.call(out, partial(arm.log_off if off else arm.leave, *who))
        clock.call(back, partial(arm.ask, *who))

"""Asks every host for its figures, side by side; a host that hangs costs its own figures alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from functools import partial

from vgpumgr.model.errors import DeadlineExceeded, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.host_sample import HostSample
from vgpumgr.model.ports import HostExecutor, Hosts

WITHIN_S = 25.0
"""No host is waited for longer; the helper's own deadline is shorter than that."""


class FigureSampler:
    """``lanes`` are its own: a host that hangs in one of the engine's is another matter.

    ``now`` is Unix time in seconds.
    """

    def __init__(self, hosts: Hosts, lanes: HostExecutor, now: Callable[[], float]) -> None:
        self._hosts = hosts
        self._lanes = lanes
        self._now = now
        self._asking: set[str] = set()

    def read(
        self, records: Collection[HostRecord], within_s: float = WITHIN_S
    ) -> dict[str, HostSample]:
        """The figures of these hosts, or why there are none; those at rest are not asked."""
        asked = {each.name: each for each in records if not each.at_rest}
        began, waiting = self._now(), self._asking & asked.keys()
        found = self._lanes.run(
            {name: partial(self._ask, asked[name]) for name in asked.keys() - waiting}, within_s
        )
        silent = {name: _still_asked(name) for name in waiting}
        told = {**found, **silent}
        return {name: self._sample(name, began, told[name]) for name in asked}

    def _ask(self, record: HostRecord) -> HostSample:
        self._asking.add(record.name)
        try:
            return self._told(record)
        finally:
            self._asking.discard(record.name)

    def _told(self, record: HostRecord) -> HostSample:
        at, began = self._now(), time.monotonic()
        figures = self._hosts.open(record).figures()
        return HostSample(
            host=record.name,
            at=at,
            took_s=time.monotonic() - began,
            figures=figures,
            hung=figures.hung,
        )

    def _sample(self, host: str, began: float, told: HostSample | Exception) -> HostSample:
        if isinstance(told, HostSample):
            return told
        why = f"{told.message}: {told.why}" if isinstance(told, VgpumgrError) else str(told)
        return HostSample(
            host=host,
            at=began,
            took_s=max(0.0, self._now() - began),
            hung=isinstance(told, DeadlineExceeded),
            error=why or type(told).__name__,
        )


def _still_asked(host: str) -> DeadlineExceeded:
    """A host is asked by one reading at a time."""
    return DeadlineExceeded(f"{host} has not answered an earlier reading", why="it hangs")

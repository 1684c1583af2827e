"""Differences of one host that were told already: each is told once, and its end once."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpumgr.engine.reconcile.events import Event, drift_event
from vgpumgr.model.drift import Drift, DriftReport

Key = tuple[str, ...]


class KnownDrifts:
    """What differs on a host, as far as it was told."""

    def __init__(self) -> None:
        self._told: dict[Key, Drift] = {}

    def __len__(self) -> int:
        return len(self._told)

    def update(self, report: DriftReport, withheld: Collection[Drift] = ()) -> Iterator[Event]:
        """Events for what is new and what is over; of ``withheld`` nothing new is told.

        Nothing is over that could not be read, or that an operation is working on.
        """
        silent = {_key(drift) for drift in withheld} - self._told.keys()
        found = {_key(drift): drift for drift in report.drifts}
        now = {key: drift for key, drift in found.items() if key not in silent}
        for key, drift in now.items():
            if key not in self._told:
                yield drift_event(drift, ended=False)
        kept: dict[Key, Drift] = {}
        for key, drift in self._told.items():
            if key in now:
                continue
            if report.not_read or drift.vm in report.skipped:
                kept[key] = drift
            else:
                yield drift_event(drift, ended=True)
        self._told = {**kept, **now}


def _key(drift: Drift) -> Key:
    return str(drift.kind), drift.vm, drift.gpu, drift.subject, drift.found

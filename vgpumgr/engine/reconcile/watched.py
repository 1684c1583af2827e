"""The ledger as a turn has it: each use shows that the turn is alive, and an abandoned turn keeps
no observation any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from vgpumgr.engine.reconcile.lanes import Lane
from vgpumgr.model.errors import Interrupted
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ports import Ledger


def watched(ledger: Ledger, lane: Lane) -> Ledger:
    """The ledger for one turn."""
    return cast("Ledger", _Watched(ledger, lane))


class _Watched:
    def __init__(self, ledger: Ledger, lane: Lane) -> None:
        self._ledger = ledger
        self._lane = lane

    def __getattr__(self, name: str) -> Any:
        self._lane.alive()
        return getattr(self._ledger, name)

    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """What was read before the turn hung may be old by now."""
        self._lane.alive()
        if self._lane.abandoned:
            raise Interrupted(f"the observation of {facts.host} took too long and was discarded")
        self._ledger.observe(facts, units, at)

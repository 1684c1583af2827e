"""Who loses a race is told by the error alone: the database's driver says nothing on stderr."""

from __future__ import annotations

import pytest

from tests.unit.store.values import allocation, fleet, start, vm
from vgpumgr.model.errors import StaleGeneration


def test_a_unit_taken_since_is_told_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    ledger = fleet(url)
    [gpu] = ledger.gpus()
    winner = vm("winner")
    ledger.reserve(start(allocation(winner, gpu, range(8)), vms=[winner]))
    for number in range(20):
        loser = vm(f"loser-{number}")
        with pytest.raises(StaleGeneration, match="taken since"):
            ledger.reserve(start(allocation(loser, gpu, range(8)), vms=[loser]))
    assert caplog.records == []

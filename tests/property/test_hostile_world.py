"""Every trial of the world of hosts that say anything, a few hundred lies."""

from __future__ import annotations

from tests.hostile.telling import Extent, run


def test_no_lie_is_a_fault_of_ours() -> None:
    tally = run(Extent(seed=11, minutes=0.7, most=200))
    assert tally.faults == []
    assert tally.mutations > 5
    assert tally.refused > 0, "the lies reached who asked"

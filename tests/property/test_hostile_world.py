"""A few lies of the world of hosts that say anything: all of them is `make hostile`."""

from __future__ import annotations

from tests.hostile.telling import Extent, run


def test_no_lie_is_a_fault_of_ours() -> None:
    tally = run(Extent(seed=11, minutes=60, most=20))
    assert tally.faults == []
    assert tally.mutations == 20
    assert tally.refused > 0, "the lies reached who asked"

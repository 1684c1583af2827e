"""A quick sample of ``python -m tests.hostile``; the whole is for ``make hostile``."""

from __future__ import annotations

from tests.hostile.telling import Extent, run


def test_a_sample_of_lies_reaches_who_asks_and_is_no_fault_of_ours() -> None:
    tally = run(Extent(seed=7, minutes=20.0, only=("probe", "mdev"), most=8))
    assert tally.faults == []
    assert (tally.mutations, tally.unheard) == (8, 0)
    assert tally.refused > 2, "lies that are heard are refused"
    assert "host probe" in tally.lied_s

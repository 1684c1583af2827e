"""A quick sample of ``python -m tests.hostile``; the whole is for ``make hostile``."""

from __future__ import annotations

from statistics import median

from tests.hostile.trials import run


def test_a_sample_of_lies_is_no_fault_of_ours_and_costs_little() -> None:
    tally = run(seed=7, minutes=20.0, only=("probe", "mdev"), most=60)
    assert tally.faults == []
    assert tally.mutations == 60
    assert tally.refused > 10, "the lies reached who asked"
    spent = tally.lied_s["host probe"]
    assert median(spent) < 20 * max(tally.clean_s["host probe"])

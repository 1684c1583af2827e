"""A short soak, the same every time; ``make soak`` is the long one."""

from __future__ import annotations

from tests.soak.runner import run
from tests.soak.tally import TALLY, operations


def test_a_short_soak_holds() -> None:
    before = operations(TALLY)
    run(1, examples=3, steps=25)
    assert operations(TALLY) > before + 20

"""A short soak, the same every time; ``make soak`` is the long one."""

from __future__ import annotations

import pytest

from tests.soak.machine import TALLY
from tests.soak.runner import run


@pytest.mark.parametrize("seed", [1, 2])
def test_a_short_soak_holds(seed: int) -> None:
    before = TALLY["operations"]
    run(seed, examples=2, steps=30)
    assert TALLY["operations"] > before + 10

"""The cases of moving VMs on pairs of simulated hosts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.bench import Case, state
from tests.contract.move_bench import MoveBench
from tests.contract.simulated.moves import PAIRS, Pair, bench


def pairs() -> list[Any]:
    return [
        pytest.param(pair, case, id=f"{pair.name}-{case.__name__}")
        for pair in PAIRS
        for cases in pair.lists
        for case in cases
    ]


@pytest.mark.parametrize(("pair", "case"), pairs())
def test_two_simulated_hosts(pair: Pair, case: Case[MoveBench]) -> None:
    with bench(pair) as made:
        before = [state(each.probe()) for each in (made.source, made.target)]
        case(made)
        after = [state(each.probe()) for each in (made.source, made.target)]
        assert after == before, "the case left something behind"

"""The cases on simulated hosts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.bench import Case, state
from tests.contract.simulated.host import Run, booted
from tests.contract.simulated.runs import RUNS


def pairs(of: str) -> list[Any]:
    return [
        pytest.param(run, case, id=f"{run.name}-{case.__name__}")
        for run in RUNS
        for cases in getattr(run, of)
        for case in cases
    ]


@pytest.mark.parametrize(("run", "case"), pairs("lists"))
def test_a_simulated_host(run: Run[Any], case: Case[Any]) -> None:
    with booted(run.host) as (host, machine):
        bench = run.bench(host, machine)
        before = state(host.probe())
        case(bench)
        assert state(host.probe()) == before, "the case left something behind"


@pytest.mark.parametrize(("run", "case"), pairs("boots"))
def test_a_simulated_host_that_is_rebooted(run: Run[Any], case: Case[Any]) -> None:
    with booted(run.host) as (host, machine):
        case(run.bench(host, machine))

"""The cases on simulated hosts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.bench import Case, state
from tests.contract.simulated.host import Run, booted
from tests.contract.simulated.runs import RUNS

# Where the simulation is wrong, and has still to be put right.
DIFFERS = {
    "an_mdev_is_not_removed_while_the_plugin_of_its_vm_lives": "an mdev goes at once",
    "a_vm_has_at_most_16_vgpus": "a VM starts with any number of vGPUs",
    "the_vgpus_of_a_vm_are_of_one_series": "a VM starts with vGPUs of any series",
    "parts_of_an_older_gpu_do_not_share_a_vm": "a VM starts with vGPUs of any size",
}


def pairs(of: str) -> list[Any]:
    return [
        pytest.param(run, case, id=f"{run.name}-{case.__name__}", marks=marks(case))
        for run in RUNS
        for cases in getattr(run, of)
        for case in cases
    ]


def marks(case: Case[Any]) -> list[pytest.MarkDecorator]:
    why = DIFFERS.get(case.__name__)
    return [pytest.mark.xfail(reason=why, strict=True)] if why else []


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

"""The cases that a simulated host passes, on real kernel devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.contract import mdev_cases, mdev_core_cases, passthrough_cases
from tests.contract.bench import Bench, Case, state
from tests.contract.mdev_bench import MdevBench
from tests.contract.passthrough_cases import PassthroughBench
from tests.lab.labhost import LabHost
from tests.lab.labmachine import LabMachine
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

DISPLAY = "0000:01:00.0"
SMALL = {"mbochs": "mbochs-small", "mtty": "mtty-1"}
MDEV_CASES = (*mdev_core_cases.CASES, *mdev_cases.CASES)
LARGE = {"mbochs": "mbochs-large", "mtty": "mtty-2"}


@pytest.mark.parametrize("parent", SMALL)
@pytest.mark.parametrize("case", MDEV_CASES, ids=lambda case: case.__name__)
def test_mediated_devices(case: Case[MdevBench], parent: str, lab: LabHost, lab_host: Host) -> None:
    elsewhere = next(each for each in SMALL if each != parent)
    bench = MdevBench(
        host=lab_host,
        machine=LabMachine(lab),
        parent=parent,
        type_id=LARGE[parent],
        other_type=SMALL[parent],
        elsewhere=(elsewhere, SMALL[elsewhere]),
        full="ENOSPC",
    )
    with unchanged(bench):
        case(bench)


@pytest.mark.parametrize("case", tuple(passthrough_cases.CASES), ids=lambda case: case.__name__)
def test_whole_functions(case: Case[PassthroughBench], lab: LabHost, lab_host: Host) -> None:
    bench = PassthroughBench(host=lab_host, machine=LabMachine(lab), gpu=DISPLAY)
    with unchanged(bench):
        case(bench)


@contextmanager
def unchanged(bench: Bench) -> Iterator[None]:
    """The host is afterwards as it was; what a failed case left is taken away."""
    before = state(bench.host.probe())
    try:
        yield
    finally:
        left = state(bench.host.probe())
        bench.clean()
    assert left == before, "the case left something behind"

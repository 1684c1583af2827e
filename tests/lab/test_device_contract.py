"""The cases that a simulated host passes, on real kernel devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.device_cases import CASES, Bench, Case, state
from tests.lab.labhost import LabHost
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

DISPLAY = "0000:01:00.0"
BENCHES = {"mbochs": ("mbochs-large", "mbochs-small"), "mtty": ("mtty-2", "mtty-1")}


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest, lab: LabHost, lab_host: Host) -> Iterator[Bench]:
    parent: str = request.param
    type_id, other_type = BENCHES[parent]
    before = state(lab_host.probe())
    bench = Bench(
        host=lab_host,
        parent=parent,
        type_id=type_id,
        other_type=other_type,
        gpu=DISPLAY,
        make_foreign=lambda device: lab.make_mdev(parent, type_id, device),
        drop_foreign=lab.drop_mdev,
    )
    yield bench
    left = state(lab_host.probe())
    bench.clean()
    assert left == before, "the case left something behind"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_lab_host(case: Case, bench: Bench) -> None:
    case(bench)

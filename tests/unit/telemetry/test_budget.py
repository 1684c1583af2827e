"""How many series there are: a budget for each GPU, vGPU and GPU instance, and none born late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.unit.telemetry.world import GPU, Fleet, Read, made
from vgpumgr.helper.figure_families import XIDS_FROM_ZERO
from vgpumgr.helper.figure_table import GPU_FIGURES, INSTANCE_FIGURES, VGPU_FIGURES, Figure
from vgpumgr.helper.host_series import MOST_XIDS
from vgpumgr.model.health import HealthState
from vgpumgr.telemetry.contract import (
    GPU_BUDGET,
    GPU_BUDGET_OF_ALL,
    INSTANCE_BUDGET,
    VGPU_BUDGET,
    VGPU_BUDGET_OF_ALL,
)
from vgpumgr.telemetry.room_gauges import MOST_PROFILES

# Info, allocated and stranded memory, the risk, when the last Xid was.
OTHERS_OF_A_GPU = 5


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from made(tmp_path_factory.mktemp("fleet"))


def most(table: tuple[Figure, ...], *, details: bool) -> int:
    """Of figures: a board remaps rows or retires pages, never both."""
    names = [each.name for each in table if details or not each.detail]
    return len(names) - min(
        sum(name.startswith("pages_") for name in names),
        sum(name.startswith(("rows_", "banks_")) for name in names),
    )


def test_no_gpu_can_have_more_than_its_budget() -> None:
    fixed = OTHERS_OF_A_GPU + len(HealthState) + MOST_PROFILES
    normal = most(GPU_FIGURES, details=False) + len(XIDS_FROM_ZERO) + fixed
    assert normal <= GPU_BUDGET
    assert most(GPU_FIGURES, details=True) + MOST_XIDS + fixed <= GPU_BUDGET_OF_ALL
    assert most(VGPU_FIGURES, details=False) + 1 <= VGPU_BUDGET
    assert most(VGPU_FIGURES, details=True) + 1 <= VGPU_BUDGET_OF_ALL
    assert len(INSTANCE_FIGURES) + 1 <= INSTANCE_BUDGET


def counted(read: Read) -> tuple[Counter[str], Counter[str], Counter[str]]:
    gpus: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    instances: Counter[str] = Counter()
    for each in read.series:
        uuid = each.labels.get("UUID", "")
        if "vgpu" in each.labels:
            parts[f"{uuid} {each.labels['vgpu']}"] += 1
        elif "gi" in each.labels:
            instances[f"{uuid} {each.labels['gi']}"] += 1
        elif uuid:
            gpus[uuid] += 1
    return gpus, parts, instances


@pytest.mark.parametrize("details", [False, True])
def test_a_fleet_keeps_to_it(fleet: Fleet, details: bool) -> None:
    gpus, parts, instances = counted(fleet.read(details=details))
    budgets = (GPU_BUDGET_OF_ALL, VGPU_BUDGET_OF_ALL) if details else (GPU_BUDGET, VGPU_BUDGET)
    assert (len(gpus), len(parts), len(instances)) == (14, 8, 2)
    assert max(gpus.values()) <= budgets[0]
    assert max(parts.values()) <= budgets[1]
    assert max(instances.values()) <= INSTANCE_BUDGET


def test_users_are_in_no_label_unless_they_are_asked_for(fleet: Fleet) -> None:
    assert "user=" not in fleet.read().text
    assert 'user="ada"' in fleet.read(users=True).text


def test_each_series_is_there_once(fleet: Fleet) -> None:
    heads = [line.rpartition(" ")[0] for line in fleet.read(details=True).text.splitlines()]
    twice = [head for head, count in Counter(heads).items() if count > 1]
    assert not twice


def test_a_host_that_logs_every_code_has_a_limit(fleet: Fleet) -> None:
    for code in range(1, 60):
        if code not in {79}:
            fleet.inject("vf", "gpu", GPU, "xid", str(code))
    try:
        found = fleet.read().values("gpu_xid_total", "xid", host="vf")
    finally:
        fleet.inject("vf", "clear")
    assert len(found) == MOST_XIDS
    assert {str(code) for code in XIDS_FROM_ZERO} <= found.keys()


def test_an_xid_that_is_seen_was_at_0_before(fleet: Fleet) -> None:
    """An increase from nothing is none to Prometheus."""
    rounds = fleet.new_rounds()
    before = Read(rounds.take().text).values("gpu_xid_total", "xid", host="mig")
    for _ in range(2):
        fleet.inject("mig", "gpu", GPU, "xid", "63")
    after = Read(rounds.take().text).values("gpu_xid_total", "xid", host="mig")
    assert (before["63"], after["63"]) == (0, 2)

"""What a host measures is read with limits: it is not trusted beyond itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vgpumgr.helper.figure_table import GPU_FIGURES, INSTANCE_FIGURES, VGPU_FIGURES, Figure
from vgpumgr.hosts.facts.figure_facts import read_figures
from vgpumgr.model.errors import OutcomeUnknown

GPU = "0000:41:00.0"


def most(table: tuple[Figure, ...]) -> dict[str, int]:
    return {each.name: int(each.most) for each in table}


def answer() -> dict[str, Any]:
    vgpu = {"number": 3, "uuid": "u", "mdev": None, "vm": "v", "type": 557, "instance": 1,
            "placement_id": 0, "figures": most(VGPU_FIGURES)}  # fmt: skip
    gpu = {"address": GPU, "driver": "nvidia", "answered": True, "uuid": "GPU-1", "vbios": "9",
           "figures": {**most(GPU_FIGURES), "aer_fatal": 1}, "vgpus": [vgpu],
           "instances": [{"id": 1, "figures": most(INSTANCE_FIGURES)}],
           "xids": {"79": 1}, "last_xid": 1.5}  # fmt: skip
    return {"helper": "9", "now": 1.0, "driver": "580.1", "hung": False, "gpus": [gpu],
            "unknown": [{"part": "kernel-log", "why": "EPERM"}]}  # fmt: skip


def test_every_figure_is_read_up_to_its_most() -> None:
    found = read_figures(answer(), "h1")
    [gpu] = found.gpus
    assert gpu.figures == {**most(GPU_FIGURES), "aer_fatal": 1}
    assert gpu.vgpus is not None and gpu.vgpus[0].figures == most(VGPU_FIGURES)
    assert gpu.instances is not None and gpu.instances[0].figures == most(INSTANCE_FIGURES)
    assert (gpu.xids, gpu.last_xid, found.driver) == ({"79": 1}, 1.5, "580.1")
    assert found.unknown[0].part == "kernel-log"


def test_what_is_null_stays_unknown_and_what_is_new_is_passed_over() -> None:
    told = answer()
    told["gpus"][0] |= {"vgpus": None, "instances": None, "xids": None, "figures": {"new_w": "x"}}
    [gpu] = read_figures(told, "h1").gpus
    assert (gpu.vgpus, gpu.instances, gpu.xids, gpu.figures) == (None, None, None, {})


LIES: list[tuple[tuple[str | int, ...], object]] = [
    (("gpus",), {}),
    (("gpus", 0, "address"), "../../x"),
    (("gpus", 0, "figures", "power_mw"), -1),
    (("gpus", 0, "figures", "power_mw"), 10**12),
    (("gpus", 0, "figures", "power_mw"), 1.5),
    (("gpus", 0, "figures", "utilization_percent"), True),
    (("gpus", 0, "figures", "margin_c"), -301),
    (("gpus", 0, "vgpus", 0, "number"), "3"),
    (("gpus", 0, "vgpus", 0, "figures", "sm_percent"), 101),
    (("gpus", 0, "vgpus", 0, "vm"), "\ud800"),
    (("gpus", 0, "instances", 0, "figures", "sm_per_myriad"), 10_001),
    (("gpus", 0, "xids"), {'79"} 1\nup 0': 1}),
    (("gpus", 0, "xids"), {"79": -1}),
    (("gpus", 0, "xids"), {str(n): 1 for n in range(300)}),
    (("gpus", 0, "last_xid"), "now"),
    (("hung",), "yes"),
]


@pytest.mark.parametrize(("path", "value"), LIES)
def test_what_cannot_be_is_no_answer(path: tuple[str | int, ...], value: object) -> None:
    told: Any = copy.deepcopy(answer())
    into = told
    for name in path[:-1]:
        into = into[name]
    into[path[-1]] = value
    with pytest.raises(OutcomeUnknown, match="h1's helper cannot be understood"):
        read_figures(told, "h1")


@pytest.mark.parametrize("part", ["gpus", "vgpus", "instances"])
def test_nothing_is_told_twice(part: str) -> None:
    told = answer()
    listed = told["gpus"] if part == "gpus" else told["gpus"][0][part]
    listed.append(listed[0])
    with pytest.raises(OutcomeUnknown, match=part):
        read_figures(told, "h1")


def test_without_gpus_it_is_no_answer() -> None:
    with pytest.raises(OutcomeUnknown, match="gpus"):
        read_figures({}, "h1")

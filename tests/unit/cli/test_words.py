"""Bars, ranges and sentences of the command line: values in, text out."""

from __future__ import annotations

import pytest

from vgpumgr.cli.terminal import unstyled
from vgpumgr.cli.views.gpu_views import instance_text, mig_text, vfs_text
from vgpumgr.cli.views.layout_views import change_text, goal_text, layout_plan_text
from vgpumgr.cli.views.map_views import bar
from vgpumgr.cli.views.plan_views import folded
from vgpumgr.cli.views.vm_views import part_text
from vgpumgr.endpoints.fleet_map import cells
from vgpumgr.endpoints.layout_items import change_item, goal_item, layout_plan_item
from vgpumgr.model.formats import ranges, span_words, spanned
from vgpumgr.model.gpu import Framework
from vgpumgr.model.layout import (
    CreateInstance,
    DestroyInstance,
    GpuChange,
    GpuLayout,
    InstanceGoal,
    LayoutPlan,
    PartChange,
    Scheduler,
    SetMigMode,
    SetMixedSize,
    SetScheduler,
    SetVfs,
)
from vgpumgr.model.supply import GpuSupply, InstanceSupply, Offer, SlotStart, Usage


def usage(units: int, start: int | None = None, *, foreign: str = "", profile: str = "p") -> Usage:
    return Usage(
        profile=profile,
        framework=Framework.VFIO_VF,
        units=units,
        start=start,
        vm="" if foreign else "vm",
        foreign=foreign,
    )


def instance(start: int, slots: range) -> InstanceSupply:
    return InstanceSupply(
        profile="1g", profile_id=1, start=start, size=1, gpu_slices=1, slots=tuple(slots), free=()
    )


def gpu(units: int, *usages: Usage, **fields: object) -> GpuSupply:
    values: dict[str, object] = {"numa_node": 0, "free_slots": (), "offers": ()}
    return GpuSupply(id="g", device="d", model="m", units=units, usages=usages, **(values | fields))  # type: ignore[arg-type]


OFFER = Offer(
    profile="p",
    framework=Framework.VFIO_VF,
    type_id="1",
    units=2,
    max_instances=4,
    memory_mib=1024,
    starts=tuple(SlotStart(at=at, slots=(at, at + 1)) for at in (0, 2, 4, 6)),
)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (gpu(8), "[........]"),
        (gpu(8, usage(2), usage(3, foreign="mdev x")), "[AA###...]"),
        (gpu(8, usage(2, 6), usage(2), offers=(OFFER,)), "[AA....BB]"),
        (gpu(8, usage(2, 4), instances=(instance(4, range(4, 6)),)), "[....AA..]"),
        (
            gpu(8, usage(2, 2), instances=(instance(2, range(2, 6)), instance(6, range(6, 8)))),
            "[..AA====]",
        ),
        (gpu(8, usage(9)), "[AAAAAAAA]"),
        (gpu(0), "[]"),
    ],
    ids=["free", "anywhere", "placed", "instance", "part of an instance", "too much", "none"],
)
def test_a_bar_shows_what_lies_where(drawn: GpuSupply, expected: str) -> None:
    assert unstyled(bar(cells(drawn))).rstrip() == expected


def test_a_large_gpu_is_scaled() -> None:
    text = unstyled(bar(cells(gpu(80, usage(40, 4), instances=(instance(4, range(40, 80)),)))))
    assert text == f"[{'.' * 12}{'A' * 12}]"


@pytest.mark.parametrize(
    ("slots", "text"), [((), ""), ((3,), "3"), ((0, 1, 2), "0-2"), ((5, 0, 1, 7), "0-1,5,7")]
)
def test_slots_are_ranges(slots: tuple[int, ...], text: str) -> None:
    assert ranges(slots) == text


GOAL = GpuLayout(
    mig=True,
    vfs=-1,
    instances=(
        InstanceGoal(profile="1g.10gb"),
        InstanceGoal(profile="3g.40gb", start=4, compute=("1c.3g.40gb",)),
        InstanceGoal(profile="1g.10gb"),
    ),
)


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (GpuLayout(), ""),
        (
            GOAL,
            "mig: true, vfs: max, instances: 1g.10gb ×2 + 3g.40gb at 4 with 1c.3g.40gb",
        ),
        (
            GpuLayout(vfs=0, mixed_size=False, instances=(), scheduler=Scheduler.FIXED_SHARE),
            "vfs: 0, mixed_size: false, instances: none, scheduler: fixed-share",
        ),
        (GpuLayout(vfs=1), "vfs: 1"),
    ],
)
def test_a_goal_reads_like_its_yaml(goal: GpuLayout, text: str) -> None:
    assert goal_text(goal_item(goal)) == text
    assert "vfs" not in goal_item(goal) or goal_item(goal)["vfs"] in {"max", 0, 1}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (SetMigMode(enabled=True), "turn MIG mode on (resets the GPU if the driver requires it)"),
        (SetVfs(count=0), "turn the VFs off"),
        (SetVfs(count=16), "turn 16 VFs on"),
        (SetMixedSize(enabled=False), "turn mixed-size mode off"),
        (SetScheduler(policy=Scheduler.EQUAL_SHARE), "set the scheduler to equal-share"),
        (
            DestroyInstance(id=1, profile="1g.10gb", profile_id=19, start=2),
            "destroy GPU instance 1g.10gb at 2",
        ),
        (
            CreateInstance(profile="3g.40gb", profile_id=9, start=4, size=4, compute=(0, 1)),
            "create GPU instance 3g.40gb at 4 with 2 compute instances",
        ),
    ],
)
def test_every_change_has_a_sentence(change: PartChange, text: str) -> None:
    assert change_text(change_item(change)) == text


def changed(host: str, device: str, **fields: object) -> GpuChange:
    values: dict[str, object] = {"gpu": device, "model": "A16", "layout": "cut", "goal": GOAL}
    return GpuChange(host=host, device=device, **(values | fields))  # type: ignore[arg-type]


def test_gpus_of_which_the_same_is_said_share_their_lines() -> None:
    same = {"differences": ("VFs: 0 on, wanted 16",), "changes": (SetVfs(count=16),)}
    plan = LayoutPlan(
        gpus=(
            changed("h1", "a", **same),
            changed("h1", "b", **same),
            changed("h2", "c", differences=("MIG mode: off, wanted on",), refused="a VM uses it",
                    holders=("busy",), next="vgpumgr vm stop busy"),
            changed("h2", "d", **same),
        ),
        unchanged=3,
    )  # fmt: skip
    assert layout_plan_text(layout_plan_item(plan)).splitlines() == [
        "h1  A16  a b  (layout cut)",
        "h2  A16  d  (layout cut)",
        "  differs  VFs: 0 on, wanted 16",
        "  will     turn 16 VFs on",
        "h2  A16  c  (layout cut)",
        "  differs  MIG mode: off, wanted on",
        "  refused  a VM uses it",
        "  held by  busy",
        "  next     vgpumgr vm stop busy",
        "3 GPUs to change, 1 refused, 3 as declared",
    ]


@pytest.mark.parametrize(
    ("mig", "text"),
    [
        (None, ""),
        ({"enabled": False, "pending": False, "instances": []}, "off"),
        ({"enabled": False, "pending": True, "instances": []}, "off, on after a reset"),
        ({"enabled": True, "pending": True, "instances": []}, "on"),
        ({"enabled": True, "pending": True, "instances": None}, "on, GIs unknown"),
        ({"enabled": True, "pending": True, "instances": [1]}, "1 GI"),
        ({"enabled": True, "pending": True, "instances": [1, 2]}, "2 GIs"),
    ],
)
def test_mig_in_a_word(mig: dict[str, object] | None, text: str) -> None:
    assert mig_text(mig) == text


def test_vfs_in_a_word() -> None:
    assert vfs_text(None) == ""
    assert vfs_text({"total": 16, "on": 0, "free": 0}) == "off"
    assert vfs_text({"total": 16, "on": 16, "free": 12}) == "12/16"


def test_an_instance_says_who_lives_in_it() -> None:
    made = {"id": 3, "profile": "1g.24gb", "start": 2, "compute": [], "vgpus": []}
    assert instance_text(made) == "1g.24gb at 2: empty"
    ours = {"vm": "a", "foreign": "", "profile": "DC-1-2Q"}
    theirs = {"vm": "", "foreign": "vGPU on 0000:41:00.4", "profile": "1g.24gb"}
    full = {**made, "id": None, "compute": [0], "vgpus": [ours, theirs]}
    assert instance_text(full) == (
        "1g.24gb at 2, 1 compute instance, not created yet: a "
        "(DC-1-2Q), foreign vGPU on 0000:41:00.4"
    )


def test_a_part_of_a_vm_says_where_it_lives() -> None:
    plain = {"profile": "T4-2Q", "framework": "mdev", "device": "u", "gpu": "g", "parent": "p"}
    assert part_text(plain) == "T4-2Q (mdev) u on p"
    full = {
        **plain,
        "parent": "",
        "vf": 0,
        "instance": {"profile": "1g.10gb", "start": 0, "make": False},
        "placement_id": 0,
        "frame_rate_limiter": False,
        "partition": 0,
    }
    assert part_text(full) == (
        "T4-2Q (mdev) u on g, VF 0, in GPU instance 1g.10gb at 0, of the layout, placement id 0, "
        "frame-rate limiter off, NVSwitch partition 0"
    )


def test_neighbours_that_differ_in_one_column_are_one_row() -> None:
    rows = [["change", f"web-{n}", "h1"] for n in (1, 2, 3)]
    rows += [["change", "web-4", "h2"], ["create", "a", "h2"], ["create", "b", "h2"]]
    assert folded(rows, column=1) == [["change", "web-1 … web-3", "h1"], *rows[3:]]
    assert folded([]) == []
    others = [[f"web-{n}"] for n in (1, 3, 4, 9)]
    assert folded(others) == [["web-1, web-3 and 2 more"]]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["a-1", "a-2"], "a-1, a-2"),
        (["a-09", "a-10", "a-11"], "a-09 … a-11"),
        (["a-1", "a-2", "b-3"], "a-1, a-2, b-3"),
        (["a-1", "a-3", "x", "y"], "a-1, a-3 and 2 more"),
    ],
)
def test_only_numbers_that_follow_each_other_are_a_span(names: list[str], text: str) -> None:
    assert spanned(names) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (14394, "4 h"), (200_000, "3 d")],
)
def test_a_span_of_time_is_rounded_up(seconds: float, text: str) -> None:
    assert span_words(seconds) == text

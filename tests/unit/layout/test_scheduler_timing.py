"""The scheduler's timing as a part of a layout: from the file to the driver, and read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gpu.values import gpu, vendor_vfs
from vgpumgr import layout
from vgpumgr.layout import scheduler_part
from vgpumgr.layout.target import LayoutRefused, ReportedGpu
from vgpumgr.model.layout import GpuLayout, Scheduler, SetScheduler
from vgpumgr.model.operation import Differs, InState
from vgpumgr.spec import SpecError, load
from vgpumgr.spec.dump import layout_document

EQUAL, BEST = Scheduler.EQUAL_SHARE, Scheduler.BEST_EFFORT
HEAD = "apiVersion: vgpumgr/v1\nkind: Layout\nname: a\nhosts: [h]\n"
FACTS = replace(gpu("A40", vfs=vendor_vfs("A40", 32), scheduler="equal-share"), scheduler_timing=())


def rule(lines: str) -> GpuLayout:
    [found] = load(f"{HEAD}gpus: [{{model: A40, {lines}}}]\n", "f.yaml").layouts
    assert load_again(layout_document(found)) == found
    return found.rules[0].layout


def load_again(document: object) -> object:
    import yaml

    return load(yaml.safe_dump(document), "g.yaml").layouts[0]


@pytest.mark.parametrize(
    ("said", "timing"),
    [
        ("{time_slice_ms: 2.5}", (2500,)),
        ("{frequency_hz: 480, averaging: 51}", (480, 51)),
        ("{frequency_hz: 480}", (480, 33)),
        ("default", ()),
    ],
)
def test_a_file_says_it(said: str, timing: tuple[int, ...]) -> None:
    found = rule(f"scheduler: equal-share, scheduler_timing: {said}")
    assert found.scheduler_timing == timing


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("scheduler_timing: {time_slice_ms: 4}", "needs scheduler: equal-share or fixed-share"),
        ("scheduler: best-effort, scheduler_timing: default", "which deal out time"),
        ("scheduler: equal-share, scheduler_timing: {}", "exactly one of"),
        (
            "scheduler: equal-share, scheduler_timing: {time_slice_ms: 4, frequency_hz: 480}",
            "exactly one of",
        ),
        (
            "scheduler: equal-share, scheduler_timing: {time_slice_ms: 4, averaging: 5}",
            "of a frequency",
        ),
        ("scheduler: equal-share, scheduler_timing: {time_slice_ms: 31}", "time_slice_ms"),
        ("scheduler: equal-share, scheduler_timing: {frequency_hz: 1}", "frequency_hz"),
        ("scheduler: equal-share, scheduler_timing: {time_slice: 4}", "did you mean time_slice_ms"),
        ("scheduler: equal-share, scheduler_timing: defalt", "must be default"),
    ],
)
def test_what_cannot_be_is_refused(said: str, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        rule(said)
    assert why in str(caught.value)
    assert "[" not in str(caught.value).replace("gpus[0]", ""), "no word of the parser's own"


def test_another_timing_is_a_change_and_a_difference() -> None:
    goal = GpuLayout(scheduler=EQUAL, scheduler_timing=(4000,))
    assert list(scheduler_part.differences(FACTS, goal)) == [
        "scheduler: the driver's own timing, wanted slices of 4 ms"
    ]
    [change] = layout.plan(FACTS, goal, (), ())[1]
    assert change == SetScheduler(policy=EQUAL, timing=(4000,))
    assert scheduler_part.verb(change)[1] == {"policy": "equal-share", "timing": [4000]}
    after = scheduler_part.apply(FACTS, change)
    assert list(scheduler_part.differences(after, goal)) == []
    assert layout.plan(after, goal, (), ())[1] == ()
    assert layout.plan(after, GpuLayout(scheduler=EQUAL), (), ())[1] == (), "it is left alone"


def test_it_is_read_back() -> None:
    change = SetScheduler(policy=EQUAL, timing=(480, 51))

    def seen(timing: object) -> object:
        told = {"scheduler": "equal-share", "scheduler_timing": timing}
        return scheduler_part.look(ReportedGpu(device={}, nvml=told), change)

    assert seen([480, 51]) == InState()
    assert isinstance(seen([]), Differs)


def test_a_driver_that_tells_no_timing_is_refused_one() -> None:
    old = replace(FACTS, scheduler_timing=None)
    with pytest.raises(LayoutRefused, match="tells no timing"):
        layout.plan(old, GpuLayout(scheduler=EQUAL, scheduler_timing=(4000,)), (), ())


def test_it_is_kept_for_the_next_boot() -> None:
    kept = layout.to_keep(FACTS, GpuLayout(scheduler=EQUAL, scheduler_timing=(480, 51)), ())
    assert layout.kept_parts(kept)["scheduler_timing"] == [480, 51]

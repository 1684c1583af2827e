"""The key ``power`` of a Layout: what is read and dumped, and what is refused with its place."""

from __future__ import annotations

import pytest
import yaml

from vgpumgr.model.layout import POWER_DEFAULT, UNLOCKED, GpuLayout
from vgpumgr.spec import SpecError, layout_document, load

HEAD = "apiVersion: vgpumgr/v1\nkind: Layout\nname: cap\nhosts: [h1]\ngpus:\n"


def layouts(rule: str) -> list[GpuLayout]:
    return [each.layout for spec in load(HEAD + rule, "f.yaml").layouts for each in spec.rules]


@pytest.mark.parametrize(
    ("power", "goal"),
    [
        ("{limit_watts: 250}", GpuLayout(power_limit=250)),
        ("{limit_watts: default}", GpuLayout(power_limit=POWER_DEFAULT)),
        ("{locked_clocks: [210, 1410]}", GpuLayout(locked_clocks=(210, 1410))),
        ("{locked_clocks: default}", GpuLayout(locked_clocks=UNLOCKED)),
        (
            "{limit_watts: 250, locked_clocks: [210, 1410]}",
            GpuLayout(power_limit=250, locked_clocks=(210, 1410)),
        ),
    ],
)
def test_power_is_read_and_dumped(power: str, goal: GpuLayout) -> None:
    text = f"{HEAD}- {{model: A40, power: {power}}}\n"
    [spec] = load(text, "f.yaml").layouts
    assert spec.rules[0].layout == goal
    [again] = load(yaml.safe_dump(layout_document(spec)), "f.yaml").layouts
    assert again == spec


@pytest.mark.parametrize(
    ("power", "says"),
    [
        ("{}", "says nothing"),
        ("{limit_watts: 0}", "at least 1"),
        ("{limit_watts: much}", "default, or whole watts"),
        ("{limit_watts: -5}", "limit_watts"),
        ("{limit_watts: 2.5}", "limit_watts"),
        ("{locked_clocks: [5]}", "the least and the most MHz"),
        ("{locked_clocks: [1410, 210]}", "the least and the most MHz"),
        ("{locked_clocks: [1, 2, 3]}", "locked_clocks"),
        ("{locked_clocks: fast}", "default, or two whole MHz"),
        ("{watts: 5}", "watts"),
    ],
)
def test_what_is_no_limit_is_refused(power: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        layouts(f"- {{model: A40, power: {power}}}\n")


def test_boards_of_other_vendors_have_none() -> None:
    with pytest.raises(SpecError, match="not NVIDIA's"):
        layouts("- {model: FLEX-170, power: {limit_watts: 100}}\n")

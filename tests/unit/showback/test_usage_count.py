"""GPU time by tenant, pool and VM: exactly what was held, and nothing is left over."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.showback.histories import (
    SECOND,
    Held,
    by_vm,
    expected,
    gpu,
    histories,
    history,
)
from vgpumgr.model.showback import ReportBy, Span, UsageHistory, UsageKey, UsageLine
from vgpumgr.showback.exact_sums import exact_sums
from vgpumgr.showback.usage_count import UsageCount

HOUR = Span(0, 3600 * SECOND)


def told(found: UsageHistory, by: ReportBy = ReportBy.TENANT, span: Span = HOUR) -> list[UsageLine]:
    return list(UsageCount(found, by).lines(span))


def seconds(lines: list[UsageLine]) -> dict[UsageKey | None, Fraction]:
    assert len({(each.key, each.model) for each in lines}) == len(lines)
    return {each.key: each.gpu_time / SECOND for each in lines}


def test_a_part_counts_by_its_share_of_the_board() -> None:
    held = [Held("a", "g1", (0,), 0.0, 60.0), Held("b", "g1", (2, 3), 30.0, tenant="blue")]
    assert seconds(told(history(held))) == {
        UsageKey("red"): 15,
        UsageKey("blue"): Fraction(3570, 2),
        None: 3600 - 15 - Fraction(3570, 2),
    }


def test_a_whole_gpu_is_the_whole_board_however_many_slots_it_is_cut_into() -> None:
    held = [Held("a", "g1", None, 0.0, 10.0), Held("b", "g2", (0,), 0.0, 10.0)]
    lines = told(history(held, gpu("g1", 48), gpu("g2", 1)), ReportBy.VM, Span(0, 10 * SECOND))
    assert [each.gpu_time for each in lines] == [10 * SECOND, 10 * SECOND]


def test_pools_vms_and_profiles_are_told_apart() -> None:
    held = [
        Held("a", "g1", (0,), 0.0, 10.0),
        Held("b", "g1", (1,), 0.0, 10.0),
        Held("b", "g1", (1, 2), 10.0, 20.0, profile="A40-16Q"),
    ]
    found = history(held, b="desks")
    assert {each.key for each in told(found, ReportBy.POOL)} == {
        UsageKey("red", ""),
        UsageKey("red", "desks"),
        None,
    }
    assert UsageKey("red", "desks", "b", "id-b") in seconds(told(found, ReportBy.VM))
    parts = seconds(told(found, ReportBy.PART))
    assert parts[UsageKey("red", "desks", "b", "id-b", "A40-8Q")] == Fraction(10, 4)
    assert parts[UsageKey("red", "desks", "b", "id-b", "A40-16Q")] == 5


def test_a_slot_that_a_vm_holds_twice_while_it_changes_its_part_counts_once() -> None:
    held = [Held("a", "g1", (0, 1), 0.0, 20.0), Held("a", "g1", (1, 2), 10.0, 15.0)]
    found = seconds(told(history(held), span=Span(0, 20 * SECOND)))
    assert found[UsageKey("red")] == Fraction(2 * 20 + 5, 4)


def test_a_gpu_counts_while_it_is_in_the_fleet_or_something_is_held_of_it() -> None:
    there = gpu("g1", 4, "A40", (10.0, 20.0), (40.0, 50.0))
    found = seconds(told(history([Held("a", "g1", (0,), 15.0, 35.0)], there)))
    assert found == {UsageKey("red"): 5, None: 20 - Fraction(5, 4)}


def test_what_is_zero_has_no_line_and_a_fleet_without_gpus_none_at_all() -> None:
    assert told(UsageHistory(held=history([]).held, gpus=())) == []
    assert told(history([Held("a", "g1", (), 0.0)]), span=Span(5, 5)) == []


@given(histories(), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_every_slot_of_every_moment_is_in_exactly_one_line(
    found: UsageHistory, first: int, middle: int, last: int
) -> None:
    first, middle, last = (each * SECOND for each in sorted((first, middle, last)))
    span = Span(first, last)
    lines = told(found, ReportBy.VM, span)
    by_key = {(by_vm(each.key), each.model): each.gpu_time for each in lines}
    assert by_key == expected(found, span)
    whole = sum((each.gpu_time for each in lines), Fraction())
    assert all(each.gpu_time > 0 for each in lines)
    for by in ReportBy:
        count = UsageCount(found, by)
        parts = (*count.lines(Span(first, middle)), *count.lines(Span(middle, last)))
        assert sum((each.gpu_time for each in parts), Fraction()) == whole
        assert sum((each.gpu_time for each in count.lines(span)), Fraction()) == whole


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, (1 << 62) - 1)), max_size=50))
def test_sums_are_exact_beyond_what_a_double_holds(pairs: list[tuple[int, int]]) -> None:
    groups = np.array([each for each, _ in pairs], dtype=np.int64)
    numbers = np.array([each for _, each in pairs], dtype=np.int64)
    summed = exact_sums(groups, numbers, 4)
    assert summed == [sum(number for at, number in pairs if at == group) for group in range(4)]


@pytest.mark.parametrize("count", [1, 5])
def test_sums_of_more_than_are_summed_at_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpumgr.showback.exact_sums._AT_ONCE", 2)
    groups, numbers = np.zeros(count, np.int64), np.full(count, (1 << 62) - 1)
    assert exact_sums(groups, numbers, 1) == [count * ((1 << 62) - 1)]

"""The last hour of GPUs and parts: means of whole minutes, bounded, whatever the clock does."""

from __future__ import annotations

import json

import pytest

from vgpumgr.telemetry.use_history import MINUTES, UseHistory, part_key

NOON = 1_800_000_000.0 // 60 * 60
GPU = "vdi/0000:41:00.0"


def filled(minutes: int, share: int = 50) -> UseHistory:
    """So many whole minutes from noon on."""
    history = UseHistory()
    for minute in range(minutes + 1):
        history.add(NOON + 60 * minute, {GPU: share})
    return history


def test_a_minute_is_the_mean_of_what_was_told_in_it() -> None:
    history = UseHistory()
    assert [
        history.add(NOON + at, {GPU: share}) for at, share in ((0, 10), (15, 20), (59, 90))
    ] == [False] * 3
    assert history.shares(GPU, NOON + 59) == [], "it is not over"
    assert history.add(NOON + 60, {GPU: 0})
    assert history.shares(GPU, NOON + 60) == [*[None] * 59, 0.4]


def test_no_more_than_an_hour_is_kept() -> None:
    history = filled(200)
    assert history.shares(GPU, NOON + 200 * 60) == [0.5] * MINUTES
    assert len(history.written()) < 300


def test_minutes_without_an_answer_are_gaps() -> None:
    history = UseHistory()
    for minute, told in enumerate(({GPU: 10}, {}, {GPU: 30}, {})):
        history.add(NOON + 60 * minute, told)
    assert history.shares(GPU, NOON + 180)[-3:] == [0.1, None, 0.3]
    history.add(NOON + 600, {})
    assert history.shares(GPU, NOON + 600)[-10:] == [0.1, None, 0.3, *[None] * 7]


def test_what_is_read_late_moves_towards_the_past_and_is_forgotten() -> None:
    history = filled(2)
    assert history.shares(GPU, NOON + 120)[-2:] == [0.5, 0.5]
    assert history.shares(GPU, NOON + 300)[-5:] == [0.5, 0.5, None, None, None]
    assert history.shares(GPU, NOON + 7200) == []


def test_what_is_gone_for_an_hour_has_no_row() -> None:
    history = filled(2)
    for minute in range(3, 70):
        history.add(NOON + 60 * minute, {})
    assert json.loads(history.written())["percent"] == {}


def test_a_restart_goes_on() -> None:
    again = UseHistory.read(filled(3).written())
    again.add(NOON + 300, {GPU: 20})
    again.add(NOON + 360, {GPU: 20})
    assert again.shares(GPU, NOON + 360)[-6:] == [0.5, 0.5, 0.5, None, None, 0.2]


@pytest.mark.parametrize("step", [-300.0, -86_400.0 * 400, 86_400.0 * 400])
def test_a_clock_that_is_set_costs_an_hour_at_most(step: float) -> None:
    history = filled(10)
    at = NOON + 600 + step
    for minute in range(MINUTES + 20):
        history.add(at + 60 * minute, {GPU: 70})
    assert history.shares(GPU, at + 60 * (MINUTES + 19))[-10:] == [0.7] * 10


def test_vms_are_averaged_over_the_parts_that_told_something() -> None:
    history = UseHistory()
    told = {part_key("a", "d1"): 10, part_key("b", "d2"): 30, part_key("c", "d3"): 90}
    history.add(NOON, told)
    history.add(NOON + 60, {})
    assert history.mean_shares({"a", "b"}, NOON + 60)[-1] == 0.2
    assert history.mean_shares({"x"}, NOON + 60) == []
    assert history.mean_shares([], NOON + 60) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"{}", b'{"percent": {}}', b'{"percent": [1], "newest_minute": 1}'],
)
def test_what_is_no_history_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        UseHistory.read(data)


def test_rows_that_are_none_are_left_out() -> None:
    rows = {"a": "zz", "b": "00", "c": "65" * 60, "d": 7, "e": "64" * 60}
    found = UseHistory.read(json.dumps({"newest_minute": 5, "percent": rows}).encode())
    assert found.shares("e", 360.0) == [1.0] * MINUTES
    assert not any(found.shares(each, 360.0) for each in "abcd")

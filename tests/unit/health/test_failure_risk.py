"""Risk of a GPU: by its own errors, storms counted once; never a reason to drain by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import get_type_hints

import pytest

from benchmarks.failure.__main__ import evaluated
from benchmarks.failure.gpu_lives import DAY_S, synthetic
from vgpumgr.health.failure_risk import HazardTable, distinct, risk_of, shipped_table

TABLE = HazardTable(
    after=((0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3),) * 3, without=(0.01, 0.02, 0.03, 0.04, 0.05, 0.06)
)


def test_the_last_error_says_most() -> None:
    now = 1000 * DAY_S
    found = [
        risk_of(TABLE, [now - days * DAY_S], 0.0, now) for days in (1, 5, 10, 20, 60, 100, 500)
    ]
    assert found == [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]


def test_without_errors_age_says_it() -> None:
    assert risk_of(TABLE, [], 0.0, 10 * DAY_S) == 0.01
    assert risk_of(TABLE, [], 0.0, 9999 * DAY_S) == 0.06


def test_a_storm_is_one_error_and_what_is_to_come_is_none() -> None:
    assert distinct([0.0, 60.0, 120.0, 5 * DAY_S]) == [120.0, 5 * DAY_S]
    rising = replace(TABLE, after=((0.1,) * 7, (0.2,) * 7, (0.3,) * 7))
    now = 100 * DAY_S
    assert risk_of(rising, [now - 1, now - 2, now - 3, now + 5], 0.0, now) == 0.1


def test_what_is_shipped_did_not_beat_the_rule_and_drains_nothing() -> None:
    table = shipped_table()
    assert not table.backtested
    assert table.risk(1, 1.0, 0.0) > table.risk(1, 400.0, 0.0) > min(table.without)
    assert "drain" not in get_type_hints(HazardTable)


@pytest.mark.thorough
def test_the_evaluation_finds_repeat_offenders_where_there_are_some() -> None:
    split = (0.0, 3 * 365 * DAY_S, 5 * 365 * DAY_S)
    found = evaluated(synthetic(800), split)
    rule = found["alarms"]["error in the last 7 days"]
    assert rule["precision"] > 20 * found["base_rate"]
    assert found["risk_auc"] > 0.55
    assert found["failures"] > 50

"""A short race on both stores; ``make race`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.race.reserving import Reserving
from tests.race.rounds import race
from tests.race.seen import sound


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_one_wins_and_the_others_are_told(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    at = str(tmp_path / "l.db")
    url = at if store == "sqlite" else request.getfixturevalue("pg").database()
    report = race(Reserving, url, clients=8, rounds=10)
    assert sound(report), report
    assert report["rounds"] == 10

"""A quick sample of ``python -m tests.hostile``; the whole is for ``make hostile``."""

from __future__ import annotations

from collections.abc import Mapping
from unittest import mock

import pytest

from tests.hostile.tally import Tally
from tests.hostile.telling import Extent, Lie, Worlds, judged, run
from tests.hostile.trials import TRIALS
from vgpumgr.hosts.facts.checked_helper import CheckedHelper


def test_a_sample_of_lies_reaches_who_asks_and_is_no_fault_of_ours() -> None:
    tally = run(Extent(seed=7, minutes=20.0, only=("probe", "mdev"), most=8, together=3))
    assert tally.faults == []
    assert (tally.mutations, tally.unheard) == (8, 0)
    assert tally.refused > 0, "lies that are heard are refused"
    assert "host probe" in tally.lied_s


@pytest.mark.thorough
def test_of_lies_told_together_the_one_behind_a_fault_of_ours_is_named() -> None:
    call = CheckedHelper.call

    def broken(self: CheckedHelper, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        found = call(self, verb, args)
        assert found.get("more") != "planted", "a fault of ours"
        return found

    probe = next(each for each in TRIALS if each.name == "probe")
    lies = [Lie(probe, 0, "probe", "result.more", f'"{word}"') for word in ("a", "planted", "b")]
    with (
        mock.patch.object(CheckedHelper, "call", broken),
        Worlds(tally := Tally(), together=3) as worlds,
    ):
        heard, _ = judged(worlds, lies, [])
    assert heard == lies
    assert len(tally.faults) > 0
    assert all(each.startswith(str(lies[1])) for each in tally.faults), tally.faults

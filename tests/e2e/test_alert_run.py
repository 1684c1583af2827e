"""Faults on their whole way to a webhook: the small sister of `python -m benchmarks.alert_run`."""

from __future__ import annotations

import pytest

from benchmarks.alert_run import GPUS_OF_HOST, run_faults


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_each_fault_raises_its_alert_once() -> None:
    """How long that takes is for the run of half an hour to say: here other work is at it, too."""
    found = run_faults(10, 1.0, past_s=0.0)
    assert found["gpus"] == 2 * GPUS_OF_HOST
    assert (found["alerts"], found["missing"], found["twice"]) == (10, [], [])
    assert found["unexpected"] == []

"""The pool of GPUs in mixed-size mode: places by the catalogue, a bound that is a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.placement.pools.boards import mixed_board
from benchmarks.placement.pools.bound import halves, mixed_size
from benchmarks.placement.pools.experiment import Job, measured
from benchmarks.placement.pools.mixed import RULES, MaskPool, Masks
from benchmarks.placement.vdi_mixed import VDI_MIXED


@pytest.mark.parametrize("policy", VDI_MIXED.policies)
def test_a_run_in_mixed_size_mode(policy: str) -> None:
    """The checker finds nothing, and free migration takes no less than a policy."""
    small = replace(VDI_MIXED, gpus=8, warm=0.0, lasting=3.0)
    found, free = (measured(small, Job("ai", 1.1, 1, name)) for name in (policy, "free-migration"))
    assert 40 < found["units_pct"] <= free["units_pct"] <= 100


def test_halves_of_a_gpu_in_mixed_size_mode() -> None:
    """By the placement ids: eight of 2 GB in a half, not twelve; 16 and 8 GB fill one."""
    found = halves(mixed_board()).tolist()
    assert [8, 0, 0, 0, 0, 0] in found and [0, 0, 1, 1, 0, 0] in found
    assert [0, 0, 0, 0, 1, 0] in found and found[-1] == [0, 0, 0, 0, 0, 0.5]
    bound = mixed_size(mixed_board(), 1)
    assert bound.accept(4) and bound.accept(4) and not bound.accept(0)
    bound.leave(4)
    assert not bound.accept(5)


def test_a_mask_pool_goes_by_its_score() -> None:
    """First fit begins where the driver does; breadth-first takes the next GPU."""
    first, breadth = (
        MaskPool(Masks(mixed_board(), "ai"), RULES[rule], 2)
        for rule in ("first-fit", "breadth-first")
    )
    for pool in (first, breadth):
        assert pool.accept(1, 0) and pool.accept(2, 0)
    assert [[step.slots for step in gpu] for gpu in first.held()] == [[0b11, 0b11 << 4], []]
    assert [len(list(gpu)) for gpu in breadth.held()] == [1, 1]
    first.leave(1)
    assert first.accept(3, 1)
    assert [[step.slots for step in gpu] for gpu in first.held()] == [[0b11 << 4, 0b1111], []]

"""The pools of the benchmark: they decide as the Placer does, and the bound is a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.mig import MIG as MIG_POOL
from benchmarks.placement.pools.arrivals import arrivals
from benchmarks.placement.pools.boards import mig_board, vdi_board
from benchmarks.placement.pools.bound import contents, free_migration, prices, same_size
from benchmarks.placement.pools.checker import check
from benchmarks.placement.pools.experiment import Job, measured
from benchmarks.placement.pools.policies import Budget, Table
from benchmarks.placement.pools.product import OnPlacer, ProductPool
from benchmarks.placement.pools.rankings import RANKINGS
from benchmarks.placement.pools.simulate import simulate
from benchmarks.placement.pools.table_pool import TablePool
from benchmarks.placement.vdi import VDI as VDI_POOL
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.tables.state_space import StateTransition

BOARDS = {"mig": mig_board(), "vdi": vdi_board()}


class OnTable:
    """The table engine as a pool that keeps a log."""

    def __init__(self, pool: TablePool) -> None:
        self._pool = pool
        self.moved: list[int] = []
        self.log: list[tuple[int, str | None]] = []

    def accept(self, number: int, part: int) -> bool:
        gpu = self._pool.best(part)
        self.log.append((number, None if gpu is None else str(gpu)))
        if gpu is not None:
            self._pool.put(number, part, gpu)
        return gpu is not None

    def leave(self, number: int) -> None:
        self._pool.remove(number)

    def held(self) -> list[list[StateTransition]]:
        return [list(gpu.values()) for gpu in self._pool.held]

    def active(self) -> int | None:
        return None


PRODUCT = {
    "breadth-first": ("breadth-first", False),
    "depth-first": ("depth-first", False),
    "least-fragmentation": ("least-fragmentation", False),
    "values": ("least-fragmentation", True),
}


@pytest.mark.parametrize("board", ["mig", "vdi"])
@pytest.mark.parametrize("policy", PRODUCT)
def test_the_table_decides_as_the_placer_does(board: str, policy: str) -> None:
    known, gpus = BOARDS[board], 6
    mix = next(iter(known.mixes))
    shares = known.shares(mix)
    units = gpus * known.whole
    came = arrivals(shares, known.sizes, units, 1.0, 5, warm=0.0, lasting=6.0)
    own, values = PRODUCT[policy]
    product = OnPlacer(PlacementPolicy(own), values=values).pool(lambda: known, mix, gpus)
    assert isinstance(product, ProductPool)
    # Only GPUs in MIG have values. The matrix holds single precision.
    ranking = RANKINGS[policy if board == "mig" else own](known, shares, gpus)
    ranking = replace(ranking, scores=ranking.scores.astype(np.float32))
    table = OnTable(TablePool(known.space, ranking, gpus))
    for pool in (product, table):
        simulate(pool, came, known, units)
    assert any(gpu is None for _, gpu in table.log) and len(table.log) > 40
    assert table.log == product.log


def test_prices_are_exact_for_packing_into_shares_of_gpus() -> None:
    """No content is worth more than a GPU, and each corner is held by as many as fix it."""
    sets = contents(BOARDS["mig"].space)
    corners = prices(sets)
    assert len(sets) == 38
    assert (corners @ sets.T <= 1 + 1e-9).all()
    for corner in corners:
        tight = sets[np.isclose(sets @ corner, 1)]
        bounds = np.vstack([tight, np.eye(6)[corner == 0]])
        assert np.linalg.matrix_rank(bounds) == 6


def test_free_migration_takes_whatever_a_policy_holds() -> None:
    board = BOARDS["mig"]
    bound = free_migration(board, 10)
    pool = TablePool(board.space, RANKINGS["fgd-uniform"](board, board.shares("uniform"), 10), 10)
    rng = np.random.default_rng(1)
    for number in range(200):
        part = int(rng.integers(6))
        gpu = pool.best(part)
        if gpu is not None:
            pool.put(number, part, gpu)
            assert bound.accept(part)
    assert not bound.accept(5)


def test_same_size_free_migration_counts_whole_gpus() -> None:
    bound = same_size(BOARDS["vdi"], 2)
    assert [bound.accept(4) for _ in range(3)] == [True, True, True]
    assert not bound.accept(0), "both GPUs are of the size of 24 GB"
    bound.leave(4)
    assert bound.accept(0)


@pytest.mark.parametrize("policy", ["vgpumgr", "round-robin", "values + 3 moves", "free-migration"])
def test_a_run_has_its_figures(policy: str) -> None:
    small = replace(MIG_POOL, gpus=8, warm=1.0, lasting=3.0)
    found = measured(small, Job("uniform", 1.0, 1, policy))
    assert 40 < found["units_pct"] <= 100
    assert found["moves"] <= 0.05 + 1 / 20


def test_moves_keep_to_their_budget() -> None:
    tight = Budget(4, 0.03, saved=8)
    small = replace(
        VDI_POOL, gpus=16, warm=0.0, lasting=6.0, policies={"tight": Table("depth-first", tight)}
    )
    found = measured(small, Job("ai", 1.2, 1, "tight"))
    assert 0 < found["moves"] <= 0.03


def test_the_same_seed_gives_the_same_arrivals() -> None:
    board = BOARDS["mig"]
    one, two = (
        arrivals(board.shares("uniform"), board.sizes, 80, 1.0, 3, warm=1.0, lasting=2.0)
        for _ in range(2)
    )
    assert (one.at == two.at).all() and (one.parts == two.parts).all() and one.at.max() < 3.0


MIG_FAULTS = {
    "lies on another": [(3, 0), (3, 0)],
    "does not begin there": [(4, 40)],
    "compute slices": [(4, 0), (3, 40)],
}


@pytest.mark.parametrize("fault", MIG_FAULTS)
def test_the_checker_finds(fault: str) -> None:
    board = BOARDS["mig"]
    width = [10 * int(size) for size in board.sizes]
    held = [StateTransition(p, ((1 << width[p]) - 1) << at, 0) for p, at in MIG_FAULTS[fault]]
    if fault == "compute slices":
        board = replace(board, supply=replace(board.supply, gpu_slices=6))
    with pytest.raises(InvalidPlacement, match=fault):
        check(board, [[], held])


@pytest.mark.parametrize(
    ("fault", "parts"), [("several sizes", [0, 1]), ("54 units of 48", [5, 0, 0, 0])]
)
def test_the_checker_finds_on_a_same_size_board(fault: str, parts: list[int]) -> None:
    with pytest.raises(InvalidPlacement, match=fault):
        check(BOARDS["vdi"], [[StateTransition(part, 0, 0) for part in parts]])

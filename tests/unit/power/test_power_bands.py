"""The three bands: what holds of every decision, whatever was measured, and the plain cases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.model.power import PowerClass
from vgpumgr.power.power_bands import Bands, BudgetLoad, CapState, GpuLoad, HeldTo, decide

LEAST, MOST = 100, 400


def gpu(
    name: str, watts: float, kind: PowerClass = PowerClass.RESERVED, clock: int | None = 1400
) -> GpuLoad:
    return GpuLoad(id=name, kind=kind, watts=watts, least_w=LEAST, most_w=MOST, clock_mhz=clock)


def rack(watts: float, *gpus: GpuLoad, base: float = 0.0, name: str = "rack") -> BudgetLoad:
    return BudgetLoad(name=name, watts=watts, base_w=base, gpus=tuple(each.id for each in gpus))


def test_between_the_bands_nothing_changes() -> None:
    gpus = [gpu("a", 300), gpu("b", 170)]
    capped = CapState(caps={"a": HeldTo(limit_w=300, why="rack")})
    assert decide([rack(500, *gpus)], gpus, capped).caps == capped.caps
    assert decide([rack(500, *gpus)], gpus, CapState()).caps == {}


def test_spot_comes_first_and_its_clocks_before_its_limit() -> None:
    gpus = [gpu("a", 250, PowerClass.ON_DEMAND), gpu("b", 247, PowerClass.SPOT)]
    first = decide([rack(500, *gpus)], gpus, CapState())
    assert list(first.caps) == ["b"]
    assert first.caps["b"].limit_w is None
    assert 0.6 * 1400 <= (first.caps["b"].clock_mhz or 0) < 1400
    second = decide([rack(500, *gpus)], gpus, first)
    assert second.caps["b"].limit_w is not None
    assert second.caps["b"].clock_mhz == first.caps["b"].clock_mhz


def test_of_a_class_the_furthest_over_its_share_comes_first() -> None:
    gpus = [gpu("a", 120), gpu("b", 380)]
    assert list(decide([rack(504, *gpus)], gpus, CapState()).caps) == ["b"]


def test_above_the_budget_the_lowest_limits_are_set_at_once() -> None:
    gpus = [gpu(f"s{n}", 400, PowerClass.SPOT) for n in range(2)] + [gpu("r", 400)]
    found = decide([rack(700, *gpus)], gpus, CapState())
    assert {name: cap.limit_w for name, cap in found.caps.items()} == {"s0": LEAST, "s1": LEAST}
    assert set(decide([rack(500, *gpus)], gpus, CapState()).caps) == {"s0", "s1", "r"}


def test_a_gpu_that_cannot_be_capped_counts_and_is_left_alone() -> None:
    gpus = [replace(gpu("a", 400, PowerClass.SPOT), cappable=False), gpu("b", 400)]
    assert list(decide([rack(700, *gpus)], gpus, CapState()).caps) == ["b"]


def test_the_power_of_hosts_without_gpus_counts() -> None:
    gpus = [gpu("a", 300)]
    assert decide([rack(500, *gpus)], gpus, CapState()).caps == {}
    assert decide([rack(500, *gpus, base=200)], gpus, CapState()).caps != {}


def test_a_cap_is_lifted_after_calm_rounds_the_most_precious_first() -> None:
    gpus = [gpu("r", 100), gpu("s", 100, PowerClass.SPOT)]
    state = CapState(caps={each.id: HeldTo(limit_w=LEAST, why="rack") for each in gpus})
    for _ in range(2):
        state = decide([rack(600, *gpus)], gpus, state)
        assert set(state.caps) == {"r", "s"}
    state = decide([rack(600, *gpus)], gpus, state)
    assert state.caps == {"s": HeldTo(limit_w=170, why="rack")}
    assert state.calm == {"rack": 0}


def test_a_parent_that_is_not_calm_keeps_the_caps_of_its_children() -> None:
    gpus = [gpu("a", 100), gpu("b", 370)]
    state = CapState(caps={"a": HeldTo(limit_w=LEAST, why="pdu")})
    budgets = [rack(600, gpus[0], name="pdu"), rack(500, *gpus, name="site")]
    for _ in range(9):
        state = decide(budgets, gpus, state)
    assert state.caps == {"a": HeldTo(limit_w=LEAST, why="pdu")}


def test_what_children_shed_is_not_shed_again_by_their_parent() -> None:
    gpus = [gpu("a", 400, PowerClass.SPOT), gpu("b", 400, PowerClass.SPOT)]
    budgets = [rack(390, gpus[0], name="pdu"), rack(790, *gpus, name="site")]
    assert list(decide(budgets, gpus, CapState()).caps) == ["a"]


def test_the_cap_of_a_gpu_that_is_gone_is_dropped() -> None:
    gpus = [gpu("a", 100)]
    state = CapState(caps={"z": HeldTo(limit_w=LEAST)}, calm={"old": 3})
    found = decide([rack(500, *gpus)], gpus, state)
    assert (found.caps, set(found.calm)) == ({}, {"rack"})


def test_a_gpu_that_peaks_above_its_limit_is_held_below_it() -> None:
    peaks = replace(gpu("a", MOST + 50), clock_mhz=None)
    found = decide([rack(452, peaks)], [peaks], CapState())
    need = MOST + 50 - 0.95 * 452
    assert found.caps["a"].limit_w == int(MOST - need)
    again = decide([rack(452, peaks)], [peaks], found)
    assert again.caps["a"].limit_w == int(int(MOST - need) - need)


LOADS = st.builds(
    lambda watts, kind, clock, ok: replace(gpu("", watts, kind, clock), cappable=ok),
    st.floats(0, 600),
    st.sampled_from(list(PowerClass)),
    st.sampled_from([None, 300, 1400]),
    st.booleans(),
)
CAPS = st.builds(
    HeldTo, limit_w=st.none() | st.integers(LEAST, MOST), clock_mhz=st.none() | st.just(900)
).filter(lambda cap: cap != HeldTo())


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[BudgetLoad], list[GpuLoad], CapState]:
    loads = draw(st.lists(LOADS, min_size=1, max_size=8))
    gpus = [replace(each, id=f"g{n}") for n, each in enumerate(loads)]
    caps = draw(st.dictionaries(st.sampled_from([each.id for each in gpus]), CAPS))
    caps = {name: cap for name, cap in caps.items() if gpus[int(name[1:])].cappable}
    half = gpus[: len(gpus) // 2]
    budgets = [
        rack(draw(st.integers(50, 3000)), *half, name="leaf"),
        rack(draw(st.integers(50, 5000)), *gpus, base=draw(st.integers(0, 400)), name="root"),
    ]
    calm = draw(st.fixed_dictionaries({"leaf": st.integers(0, 4), "root": st.integers(0, 4)}))
    return budgets, gpus, CapState(caps=caps, calm=calm)


def load(budget: BudgetLoad, gpus: list[GpuLoad]) -> float:
    return budget.base_w + sum(each.watts for each in gpus if each.id in budget.gpus)


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(situations())
def test_whatever_is_measured(found: tuple[list[BudgetLoad], list[GpuLoad], CapState]) -> None:
    budgets, gpus, state = found
    bands, by_name = Bands(), {each.id: each for each in gpus}
    after = decide(budgets, gpus, state)
    assert decide(budgets, gpus, state) == after
    for name, cap in after.caps.items():
        assert by_name[name].cappable or state.caps.get(name) == cap
        assert cap.limit_w is None or LEAST <= cap.limit_w <= MOST
        assert cap != HeldTo(why=cap.why)
    if all(load(each, gpus) < bands.cap_at * each.watts for each in budgets):
        assert not after.caps.keys() - state.caps.keys(), "capped below the band"
        for name, cap in after.caps.items():
            assert (cap.limit_w or MOST) >= (state.caps[name].limit_w or MOST)
    if any(load(each, gpus) >= bands.uncap_below * each.watts for each in budgets[1:]):
        for name, was in state.caps.items():
            assert name in after.caps, "lifted while the root is not calm"
            assert (after.caps[name].limit_w or MOST) <= (was.limit_w or MOST)


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(situations())
def test_over_a_budget_what_is_guaranteed_suffices_or_all_are_at_their_least(
    found: tuple[list[BudgetLoad], list[GpuLoad], CapState],
) -> None:
    budgets, gpus, _ = found
    root = budgets[1]
    if load(root, gpus) <= root.watts:
        return
    after = decide([root], gpus, CapState())
    limits = {name: cap.limit_w for name, cap in after.caps.items() if cap.limit_w is not None}
    assured = root.base_w + sum(min(each.watts, limits.get(each.id, 1e9)) for each in gpus)
    at_least = all(limits.get(each.id) == LEAST for each in gpus if each.cappable)
    assert at_least or assured <= Bands().cap_to * root.watts
    capped = [each.kind.rank for each in gpus if each.id in limits]
    spared = [each.kind.rank for each in gpus if each.cappable and each.id not in limits]
    assert not capped or not spared or max(capped) <= min(spared)


@pytest.mark.parametrize("watts", [250, 350, 450, 550])
def test_a_steady_load_settles(watts: int) -> None:
    """Capped power is what is drawn: no cap comes and goes for ever."""
    wanted = [gpu(f"g{n}", watts, list(PowerClass)[n % 4]) for n in range(8)]
    state, seen = CapState(), []
    for _ in range(60):
        drawn = [_held(each, state.caps.get(each.id)) for each in wanted]
        state = decide([rack(2400, *drawn)], drawn, state)
        seen.append(sum(each.watts for each in drawn))
    assert max(seen[2:]) <= 2400
    assert len({tuple(sorted(seen[-20:]))}) == 1


def _held(load: GpuLoad, cap: HeldTo | None) -> GpuLoad:
    if cap is None:
        return load
    watts = load.watts * ((cap.clock_mhz or 1400) / 1400) ** 2
    return replace(load, watts=min(watts, cap.limit_w or 1e9))

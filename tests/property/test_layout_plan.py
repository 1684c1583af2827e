"""Layouts reach their goal from every half-way state of a GPU, over a model of the driver."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.layout.values import Driver, run
from vgpumgr import catalog, layout
from vgpumgr.layout.instance_profiles import profiles
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, Scheduler

MIG_BOARDS = ("A100-PCIE-80GB", "A30", "H100-SXM5-80GB", "RTX-PRO-6000-BSE")
BOARDS = (*MIG_BOARDS, "A40", "L40S")


def mig_profiles(board: str) -> list[str]:
    return list(profiles(Driver(board).facts()))


@st.composite
def arrangements(draw: st.DrawFn, board: str) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Instances the driver would have made: created in any order, refusals skipped."""
    driver = Driver(board, enabled=True, pending=True)
    known = profiles(driver.facts())
    if not known:
        return {}
    for name in draw(st.lists(st.sampled_from(sorted(known)), max_size=6)):
        start = draw(st.sampled_from(known[name].starts))
        found = catalog.gi_profile(catalog.board(board), name)  # type: ignore[arg-type]
        assert found is not None
        compute = draw(st.sampled_from([(), *[(each.id,) for each in found.compute]]))
        try:
            driver.run(
                layout.from_plain(
                    {
                        "kind": "create-instance",
                        "profile": name,
                        "profile_id": known[name].id,
                        "start": start,
                        "size": known[name].size,
                        "compute": compute,
                    }
                )
            )
        except Exception as error:
            assert type(error).__name__ == "Refused"
    return driver.instances


@st.composite
def states(draw: st.DrawFn, board: str) -> Driver:
    """A GPU as any cut, crash or stranger may have left it."""
    driver = Driver(board, vfs=draw(st.sampled_from([0, 3, Driver(board).total])))
    if driver.facts().mig is not None:
        driver.enabled = draw(st.booleans())
        driver.pending = draw(st.booleans())
    if driver.enabled:
        driver.instances = draw(arrangements(board))
    elif driver.vfs:
        driver.mixed = bool(driver.facts().mixed_size is not None) and draw(st.booleans())
    policies = ["best-effort", "equal-share", *(() if driver.mixed else ("fixed-share",))]
    driver.policy = draw(st.sampled_from(policies))
    driver.limit = draw(st.sampled_from([100, 250, 300]))
    driver.clocks = draw(st.sampled_from([(), (300, 900)]))
    return driver


@st.composite
def reachable_goals(draw: st.DrawFn, board: str) -> GpuLayout:
    """Goals that contradict nothing, with instances that are known to fit."""
    capable = Driver(board).facts().mig is not None
    mig = draw(st.booleans()) if capable else draw(st.sampled_from([None, False]))
    vfs = draw(st.sampled_from([0, VFS_MAX, Driver(board).total]))
    policy = draw(st.sampled_from([None, Scheduler.BEST_EFFORT, Scheduler.EQUAL_SHARE]))
    goal = GpuLayout(
        mig=mig,
        vfs=vfs,
        scheduler=None if mig else policy,
        power_limit=draw(st.sampled_from([None, 0, 150])),
        locked_clocks=draw(st.sampled_from([None, (), (210, 1200)])),
    )
    if not mig:
        mixes = Driver(board).facts().mixed_size is not None and vfs != 0
        wish = draw(st.sampled_from([False, True, None] if mixes else [False, None]))
        # A fixed share that somebody chose before does not go with mixed sizes: say which.
        return replace(goal, mixed_size=wish, scheduler=policy or Scheduler.BEST_EFFORT)
    instances = []
    for start, (name, compute) in draw(arrangements(board)).items():
        known = catalog.gi_profile(catalog.board(board), name)  # type: ignore[arg-type]
        names = tuple(each.name for each in known.compute if each.id in compute) if known else ()
        pinned = start if draw(st.booleans()) else None
        instances.append(InstanceGoal(profile=name, start=pinned, compute=names[:1]))
    return replace(goal, instances=tuple(draw(st.permutations(instances))))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Driver, GpuLayout]:
    board = draw(st.sampled_from(BOARDS))
    return draw(states(board)), draw(reachable_goals(board))


@settings(max_examples=250, deadline=None)
@given(cases(), st.integers(0, 12))
def test_every_state_leads_to_every_goal_that_can_be_and_a_cut_changes_nothing(
    case: tuple[Driver, GpuLayout], cut: int
) -> None:
    driver, goal = case
    found, changes = layout.plan(driver.facts(), goal, (), ())
    assert bool(found) == bool(changes)
    run(driver, changes[:cut])
    _, rest = layout.plan(driver.facts(), goal, (), ())
    run(driver, rest)
    assert layout.differences(driver.facts(), goal, ()) == ()
    assert layout.plan(driver.facts(), goal, (), ()) == ((), ())


@settings(max_examples=150, deadline=None)
@given(cases())
def test_what_is_exported_is_as_declared(case: tuple[Driver, GpuLayout]) -> None:
    facts = case[0].facts()
    assert layout.differences(facts, layout.export(facts), ()) == ()


@settings(max_examples=150, deadline=None)
@given(cases(), st.booleans(), st.booleans())
def test_parts_left_open_stay_as_they_are(
    case: tuple[Driver, GpuLayout], vfs: bool, mig: bool
) -> None:
    """A rebind on the way loses nothing that the goal does not speak of."""
    driver, goal = case
    before = driver.facts()
    total = driver.total
    settled = (before.mig is None or before.mig.enabled == before.mig.pending) and driver.vfs != 3
    now = bool(before.mig and before.mig.enabled)
    goal = GpuLayout(vfs=(0 if driver.vfs else total) if vfs else None, mig=now if mig else None)
    try:
        _, changes = layout.plan(before, goal, (), ())
    except layout.LayoutRefused:
        assert not settled
        return
    run(driver, changes)
    after = driver.facts()
    assert (
        [(i.profile, i.start, i.compute) for i in after.mig.instances or ()]
        == [(i.profile, i.start, i.compute) for i in before.mig.instances or ()]
        if after.mig and before.mig and now
        else True
    )
    if after.vfs and before.mixed_size is not None:
        assert bool(after.mixed_size) == bool(before.mixed_size)
    assert after.scheduler == before.scheduler
    assert after.power == before.power


@pytest.mark.parametrize("board", MIG_BOARDS)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_set_of_instances_is_refused_only_when_no_order_of_places_holds_it(
    board: str, data: st.DataObject
) -> None:
    names = data.draw(st.lists(st.sampled_from(mig_profiles(board)), min_size=1, max_size=4))
    driver = Driver(board, enabled=True, pending=True)
    goal = GpuLayout(instances=tuple(InstanceGoal(profile=each) for each in names))
    try:
        _, changes = layout.plan(driver.facts(), goal, (), ())
    except layout.LayoutRefused:
        assert not by_trying(driver, names)
        return
    run(driver, changes)
    assert sorted(name for name, _ in driver.instances.values()) == sorted(names)


def by_trying(driver: Driver, names: list[str]) -> bool:
    """Every place for the first, then for the rest: the slow way to know."""
    if not names:
        return True
    known = profiles(driver.facts())[names[0]]
    for start in known.starts:
        trial = replace(driver, instances=dict(driver.instances))
        plain = {"profile": known.name, "profile_id": known.id, "start": start, "size": known.size}
        try:
            trial.run(layout.from_plain({"kind": "create-instance", **plain}))
        except Exception as error:
            assert type(error).__name__ == "Refused"
            continue
        if by_trying(trial, names[1:]):
            return True
    return False

"""The pool controller through random days: whatever happens, and in whatever order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.poolworld import NEW, OLD, World, ask, pool
from vgpumgr.engine.desktops.pool_decision import decide_pool
from vgpumgr.model.desktop import (
    Desktop,
    DesktopState,
    DesktopVerb,
    PoolAction,
    PoolDecision,
    PoolView,
    Rollout,
    RolloutPhase,
)
from vgpumgr.model.load_scale import LoadWindow
from vgpumgr.model.pool import PoolKind, PoolSpec, ScaleIn, Size, Timeouts, UpdatePolicy, UpdateWhen

USERS = ("ann", "bob", "cid", "dan", "eve")
ENDS = {DesktopVerb.DELETE, DesktopVerb.SHELVE, DesktopVerb.RECREATE}
HANDS_OFF = {DesktopState.UNKNOWN, DesktopState.CREATING, DesktopState.LEAVING}

pools = st.builds(
    lambda least, spare, kind, scale_in, when, idle: pool(
        least,
        spare,
        8,
        kind=kind,
        scale_in=scale_in,
        update=UpdatePolicy(when=when, step=2, soak_s=60),
        timeouts=Timeouts(idle_s=idle, disconnect_s=idle),
    ),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(PoolKind),
    st.sampled_from(ScaleIn),
    st.sampled_from(UpdateWhen),
    st.sampled_from([None, 300.0]),
)
EVENTS = (
    "turn",
    "ask",
    "come-up",
    "log-off",
    "leave",
    "touch",
    "break",
    "lose-host",
    "unseen",
    "gone",
    "push",
    "drain",
    "shrink",
    "close",
    "load",
    "wait",
)


def happen(world: World, event: str, pick: int) -> None:
    """One thing that happens to the pool, whatever the controller has in mind."""
    names = sorted(world.desktops)
    user = USERS[pick % len(USERS)]
    match event:
        case "ask":
            world.asks[user] = replace(ask(user), since=world.now)
        case "push":
            world.rollout = Rollout(image=NEW, previous=OLD, since=world.now)
        case "drain":
            world.draining = {} if world.draining else {"h1": world.now + 60}
        case "shrink":
            world.spec = replace(world.spec, size=Size(min=0, spare=pick % 3, max=pick % 9 + 2))
        case "load":
            windows = (None, LoadWindow(), LoadWindow(most=pick % 9, silent=pick % 2))
            world.load = (*windows, LoadWindow(least=pick % 12, most=12))[pick % 4]
        case "close":
            world.closing = not world.closing
        case "wait":
            world.now += (60, 300, 4000)[pick % 3]
        case _ if names:
            happen_to(world, world.desktops[names[pick % len(names)]], event)


def happen_to(world: World, it: Desktop, event: str) -> None:
    match event:
        case "come-up" if it.coming or it.state is DesktopState.UNKNOWN:
            world.set(it.name, state=DesktopState.READY, since=world.now)
        case "log-off" if it.session:
            world.log_off(it.name)
        case "leave" if it.session:
            world.set(it.name, session=replace(it.session, disconnected=world.now))
        case "touch" if it.session:
            active = replace(it.session, active=world.now, disconnected=None)
            world.set(it.name, session=active)
        case "break" if it.ready or it.coming:
            state, count = DesktopState.FAILED, it.failures + 1
            world.set(it.name, state=state, since=world.now, failures=count)
        case "lose-host" if it.host:
            world.set(it.name, state=DesktopState.LOST, since=world.now, host="")
        case "unseen" if it.ready:
            world.set(it.name, state=DesktopState.UNKNOWN)
        case "gone" if it.state is DesktopState.LEAVING:
            del world.desktops[it.name]


def check_decision(view: PoolView, found: PoolDecision) -> None:
    """What a turn may decide on what it saw."""
    seen = {each.name: each for each in view.desktops}
    for action in found.actions:
        assert action.seen == seen.get(action.desktop)
        if action.seen is None:
            assert action.do is DesktopVerb.CREATE
        else:
            check_action(view, action, action.seen)
    assert len({each.desktop for each in found.actions}) == len(found.actions)
    check_room(view, found)


def check_action(view: PoolView, action: PoolAction, it: Desktop) -> None:
    if action.do in ENDS:
        assert it.session is None
        assert not it.owner
        assert it.state not in HANDS_OFF
    if action.do is DesktopVerb.UPDATE:
        assert it.session is None
    if action.do is DesktopVerb.HEAL:
        assert it.broken
    if action.do is DesktopVerb.ASSIGN:
        assert it.free or action.user in {it.owner, it.session.user if it.session else ""}
    if action.do is DesktopVerb.LOGOFF:
        assert it.session
        limit = view.pool.timeouts.disconnect_s
        away = it.session.disconnected
        deadline = view.draining.get(it.host)
        assert (
            (limit is not None and away is not None and view.now - away >= limit)
            or (deadline is not None and view.now >= deadline)
            or (view.rollout is not None and view.pool.update.when is UpdateWhen.AT_ONCE)
        )


def check_room(view: PoolView, found: PoolDecision) -> None:
    """Never more than the GPUs can start, never beyond the maximum by what it makes."""
    created = sum(each.do is DesktopVerb.CREATE for each in found.actions)
    placeless = sum(
        each.do in {DesktopVerb.RECREATE, DesktopVerb.HEAL, DesktopVerb.START}
        and not (each.seen and each.seen.host and each.seen.state.holds_place)
        for each in found.actions
    )
    assert created + placeless <= view.startable
    if created:
        assert created + sum(each.runs for each in view.desktops) <= view.pool.size.max


def carry_out(world: World, found: PoolDecision) -> None:
    for action in found.actions:
        before = world.carry_out(action)
        if before is not None and action.do in ENDS:
            assert not before.used
    world.rollout = found.rollout


@settings(max_examples=150, deadline=None)
@given(
    pools,
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 40)), max_size=40),
    st.integers(0, 3),
)
def test_no_used_desktop_is_taken_whatever_happens_in_whatever_order(
    spec: PoolSpec, events: list[tuple[str, int]], late: int
) -> None:
    """Decisions are carried out ``late`` events after they were made."""
    world = World(spec)
    decided: list[tuple[int, PoolDecision]] = []
    for number, (event, pick) in enumerate(events):
        happen(world, event, pick)
        if event == "turn" or number % 3 == 0:
            view = world.view()
            found = decide_pool(view)
            check_decision(view, found)
            decided.append((number + late, found))
        while decided and decided[0][0] <= number:
            carry_out(world, decided.pop(0)[1])


def settle(world: World) -> int:
    """Turns until nothing is left to do; everything comes up at once."""
    for count in range(60):
        for each in list(world.desktops.values()):
            happen_to(world, each, "come-up")
            happen_to(world, each, "gone")
        found = decide_pool(world.view())
        if not found.actions and world.rollout == found.rollout:
            return count
        carry_out(world, found)
    raise AssertionError("it never comes to rest")


@settings(max_examples=150, deadline=None)
@given(pools, st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 40)), max_size=25))
def test_left_alone_it_comes_to_rest_with_everybody_served_whom_the_gpus_can_serve(
    spec: PoolSpec, events: list[tuple[str, int]]
) -> None:
    world = World(spec)
    for number, (event, pick) in enumerate(events):
        happen(world, event, pick)
        if number % 4 == 0:
            carry_out(world, decide_pool(world.view()))
    world.draining, world.closing = {}, False
    world.now += 4000
    settle(world)
    world.now += 4000
    settle(world)
    view = world.view()
    counts = decide_pool(view).counts
    running = sum(each.runs for each in view.desktops)
    if counts.waiting:
        stuck = any(each.broken or each.state is DesktopState.UNKNOWN for each in view.desktops)
        assert view.startable == 0 or running >= world.spec.size.max or stuck
    phases = {RolloutPhase.DONE, RolloutPhase.ROLLING, RolloutPhase.BACK, RolloutPhase.CANARY}
    assert world.rollout is None or world.rollout.phase in phases


@settings(max_examples=100, deadline=None)
@given(pools, st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 40)), max_size=25))
def test_the_same_view_gets_the_same_answer(spec: PoolSpec, events: list[tuple[str, int]]) -> None:
    world = World(spec)
    for number, (event, pick) in enumerate(events):
        happen(world, event, pick)
        if number % 4 == 0:
            carry_out(world, decide_pool(world.view()))
    assert decide_pool(world.view()) == decide_pool(world.view())

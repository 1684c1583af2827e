"""How many desktops a pool's load asks for: sustained, cooled down, and where nothing is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.poolworld import CREATING, NOW, desktop, pool, session, view
from vgpumgr.engine.desktops.desktop_actions import ActionSheet
from vgpumgr.engine.desktops.load_history import EVERY_S, GAP_S, GroupLoad, LoadHistory
from vgpumgr.engine.desktops.pool_decision import decide_pool
from vgpumgr.engine.desktops.pool_size import need
from vgpumgr.model.desktop import DesktopVerb
from vgpumgr.model.load_scale import (
    LoadMetric,
    LoadWindow,
    ScalePolicy,
    ScaleTrigger,
    VmLoad,
)

ENGINE = ScaleTrigger(metric=LoadMetric.ENGINE, threshold=0.9)
POLICY = ScalePolicy(triggers=(ENGINE,), sustained_s=300, cooldown_s=600)


def load(*shares: float | None, used: int = 0) -> GroupLoad:
    told = [None if each is None else VmLoad(vm="v", at=NOW, engine=each) for each in shares]
    return GroupLoad(members=told, used=used)


class Noted:
    """A history, and the time that it has come to."""

    def __init__(self, policy: ScalePolicy = POLICY) -> None:
        self.history, self.policy, self.now = LoadHistory(), policy, NOW

    def during(self, seconds: float, found: GroupLoad) -> LoadWindow:
        end = self.now + seconds
        while self.now <= end:
            self.history.add(self.policy, found, self.now)
            self.now += 15
        self.now -= 15
        return self.history.window(self.policy, self.now)


def test_more_are_wanted_once_the_load_was_sustained_and_not_before() -> None:
    noted = Noted()
    assert noted.during(285, load(0.95, 0.95)) == LoadWindow()
    assert noted.during(30, load(0.95, 0.95)).least == 3
    assert noted.during(15, load(0.5, 0.5)).least == 2, "one calm note ends it"


def test_fewer_are_wanted_once_none_has_asked_for_as_many_for_the_cooldown() -> None:
    noted = Noted()
    busy, calm = load(0.9, 0.9, 0.9), load(0.2, 0.2, 0.2)
    assert noted.during(600, busy).wanted(3) == 3
    assert noted.during(585, calm).wanted(3) == 3
    assert noted.during(30, calm).wanted(3) == 1


@pytest.mark.parametrize(("share", "wanted"), [(0.9, 10), (0.91, 11), (1.0, 12), (0.0, 0)])
def test_as_many_as_bring_the_mean_to_the_threshold(share: float, wanted: int) -> None:
    assert load(*[share] * 10).wanted(ENGINE) == (wanted, wanted)


def test_a_desktop_that_tells_nothing_neither_makes_it_grow_nor_shrink() -> None:
    assert load(1.0, None, None).wanted(ENGINE) == (2, 4)
    noted = Noted()
    window = noted.during(1000, load(None, None))
    assert (window.least, window.most, window.silent) == (0, 2, 2)
    assert window.wanted(2) == 2
    assert noted.during(1000, load(1.0, None, None)).wanted(3) == 3


def test_a_process_that_has_just_begun_takes_none_away() -> None:
    noted = Noted()
    assert noted.during(590, load(0.0, 0.0)).wanted(2) == 2
    assert noted.during(30, load(0.0, 0.0)).wanted(2) == 0


@pytest.mark.parametrize("gap", [GAP_S + 1, -3600.0])
def test_a_gap_or_a_clock_that_was_put_back_begins_the_notes_again(gap: float) -> None:
    noted = Noted()
    assert noted.during(900, load(0.0, 0.0)).most == 0
    noted.now += gap
    assert noted.history.is_due(noted.now)
    assert noted.during(0, load(0.0, 0.0)) == LoadWindow()


def test_old_notes_ask_for_nothing() -> None:
    noted = Noted()
    noted.during(900, load(1.0, 1.0))
    assert noted.history.window(POLICY, noted.now + GAP_S + 1) == LoadWindow()
    assert not noted.history.is_due(noted.now + EVERY_S - 1)


def test_of_several_triggers_the_one_that_asks_for_most_counts() -> None:
    sessions = ScaleTrigger(metric=LoadMetric.SESSIONS, threshold=0.5)
    noted = Noted(replace(POLICY, triggers=(ENGINE, sessions)))
    assert noted.during(900, load(0.1, 0.1, used=2)).least == 4
    alone = Noted(replace(POLICY, triggers=(sessions,)))
    found = alone.during(900, load(None, None, used=2))
    assert (found.least, found.most, found.silent) == (4, 4, 0), "the ledger knows sessions"


def test_states_are_told_with_what_told_them() -> None:
    [found] = load(0.8, 0.6, None).states(POLICY)
    assert (found.mean, found.told, found.wanted) == (pytest.approx(0.7), 2, 2)
    [nothing] = load(None).states(POLICY)
    assert (nothing.mean, nothing.told, nothing.wanted) == (None, 0, 0)


def test_a_pool_grows_with_its_load_up_to_its_maximum() -> None:
    three = [desktop(n, session=session(f"u{n}"), stained=True) for n in (1, 2, 3)]
    spec = pool(spare=0, most=5)
    grown = decide_pool(view(spec, *three, load=LoadWindow(least=4, most=4)))
    assert [each.do for each in grown.actions] == [DesktopVerb.CREATE]
    most = decide_pool(view(spec, *three, load=LoadWindow(least=9, most=9)))
    assert len(most.actions) == 2
    assert {each.code for each in most.warnings} == {"full"}


def test_a_pool_shrinks_to_its_load_and_never_below_its_users() -> None:
    free = [desktop(n) for n in (1, 2, 3, 4)]
    used = [desktop(n, session=session(f"u{n}"), stained=True) for n in (5, 6)]
    spec = pool(spare=0)
    held = decide_pool(view(spec, *free, *used, load=LoadWindow()))
    assert held.actions == (), "nothing is known of its load"
    cooled = decide_pool(view(spec, *free, *used, load=LoadWindow(most=4)))
    assert [each.desktop for each in cooled.actions] == ["cad-04", "cad-03"]
    rests = decide_pool(view(spec, *free, *used, load=LoadWindow(most=0)))
    assert len(rests.actions) == 4, "desktops that users have stay"


def test_load_counts_beside_spares_and_hours_and_not_on_top_of_them() -> None:
    used = [desktop(n, session=session(f"u{n}"), stained=True) for n in (1, 2)]
    spec = pool(spare=2)
    sheet = ActionSheet(view(spec, *used, desktop(3), desktop(4), load=LoadWindow(least=3, most=3)))
    assert need(sheet).wanted == 4


def test_silent_desktops_are_named_and_an_emptied_pool_grows_no_more() -> None:
    ready = [desktop(n) for n in (1, 2)]
    silent = decide_pool(view(pool(spare=2), *ready, load=LoadWindow(most=2, silent=2)))
    assert {each.code for each in silent.warnings} == {"no-figures"}
    closing = view(pool(spare=0), *ready, desktop(3, CREATING), load=LoadWindow(least=9, most=9))
    assert need(ActionSheet(replace(closing, closing=True))).wanted == 0

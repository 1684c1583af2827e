"""One turn of a pool at a time."""

from __future__ import annotations

from dataclasses import replace

from tests.poolworld import CREATING, NEW, NOW, OLD, READY, ask, desktop, pool, session, view
from vgpumgr.engine.desktops.pool_decision import AssignmentRefusal, assign, decide_pool
from vgpumgr.model.desktop import (
    DesktopState,
    DesktopVerb,
    PoolDecision,
    PoolView,
    Rollout,
    RolloutPhase,
)
from vgpumgr.model.pool import Autoheal, PoolKind, ScaleIn, Timeouts, UpdatePolicy, UpdateWhen


def did(seen: PoolView) -> dict[str, DesktopVerb]:
    return {each.desktop: each.do for each in decide_pool(seen).actions}


def codes(found: PoolDecision) -> set[str]:
    return {each.code for each in found.warnings}


def test_spares_are_kept_beside_those_in_use() -> None:
    spec = pool(spare=2)
    used = [desktop(n, session=session(f"u{n}"), stained=True) for n in (1, 2)]
    assert did(view(spec, *used, desktop(3))) == {"cad-04": DesktopVerb.CREATE}
    assert did(view(spec, *used, desktop(3), desktop(4, CREATING))) == {}


def test_the_lowest_free_names_are_taken() -> None:
    assert did(view(pool(least=3, spare=0), desktop(2))) == {
        "cad-01": DesktopVerb.CREATE,
        "cad-03": DesktopVerb.CREATE,
    }


def test_no_more_is_started_than_the_gpus_can_and_it_is_said() -> None:
    found = decide_pool(view(pool(spare=4), startable=1))
    assert [each.do for each in found.actions] == [DesktopVerb.CREATE]
    assert codes(found) == {"no-room"}
    assert found.counts.startable == 1


def test_it_warns_before_room_runs_out() -> None:
    four = [desktop(n) for n in range(4)]
    assert codes(decide_pool(view(pool(spare=4), *four, startable=3))) == {"low-room"}
    assert codes(decide_pool(view(pool(spare=4), *four, startable=4))) == set()
    assert codes(decide_pool(view(pool(spare=4, most=4), *four, startable=0))) == set()


def test_a_full_pool_says_so() -> None:
    used = [desktop(n, session=session(f"u{n}")) for n in range(3)]
    assert codes(decide_pool(view(pool(spare=1, most=3), *used))) == {"full"}


def test_what_a_user_left_is_made_anew() -> None:
    left = desktop(1, stained=True, since=NOW)
    assert did(view(pool(spare=1), left)) == {"cad-01": DesktopVerb.RECREATE}


def test_too_many_go_after_a_while_the_left_behind_first_and_never_the_last_spares() -> None:
    ready = [desktop(n) for n in (1, 2, 3)]
    left = desktop(4, stained=True, since=NOW)
    spec = pool(spare=2)
    assert did(view(spec, *ready, left)) == {
        "cad-04": DesktopVerb.DELETE,
        "cad-03": DesktopVerb.DELETE,
    }
    fresh = [replace(each, since=NOW - 10) for each in ready]
    assert did(view(spec, *fresh)) == {}
    coming = [desktop(n, CREATING) for n in (3, 4)]
    assert did(view(spec, *ready[:2], *coming)) == {}


def test_what_is_shelved_comes_back_before_new_ones_are_made() -> None:
    spec = pool(spare=1, scale_in=ScaleIn.SHELVE)
    assert did(view(spec, desktop(1), desktop(2))) == {"cad-02": DesktopVerb.SHELVE}
    shelved = desktop(2, DesktopState.SHELVED)
    assert did(view(replace(spec, size=replace(spec.size, spare=3)), desktop(1), shelved)) == {
        "cad-02": DesktopVerb.START,
        "cad-03": DesktopVerb.CREATE,
    }


def test_what_is_broken_is_made_anew_ever_later_and_at_last_left_alone() -> None:
    broken = desktop(1, DesktopState.FAILED, failures=2, since=NOW - 100)
    spec = pool(spare=1)
    assert did(view(spec, broken)) == {"cad-02": DesktopVerb.CREATE}
    assert did(view(spec, replace(broken, since=NOW - 120))) == {"cad-01": DesktopVerb.RECREATE}
    found = decide_pool(view(spec, replace(broken, failures=5, since=0.0), desktop(2)))
    assert (found.actions, codes(found)) == ((), {"gave-up"})
    lost = desktop(1, DesktopState.LOST, since=NOW, host="")
    assert did(view(spec, lost)) == {"cad-01": DesktopVerb.RECREATE}
    off = pool(spare=1, autoheal=Autoheal(attempts=0))
    assert did(view(off, replace(broken, since=0.0), desktop(2))) == {}


def test_a_broken_desktop_of_somebody_is_started_anew_never_made_anew() -> None:
    spec = pool(spare=0, kind=PoolKind.DEDICATED)
    lost = desktop(1, DesktopState.LOST, owner="ann", host="")
    assert did(view(spec, lost)) == {"cad-01": DesktopVerb.HEAL}
    assert did(view(spec, lost, startable=0)) == {}


def test_what_lies_on_a_lost_host_goes_and_its_user_gets_another() -> None:
    lost = desktop(1, DesktopState.LOST, since=NOW - 30, session=session("ann"), stained=True)
    spec = pool(spare=0)
    assert did(view(spec, lost)) == {}, "it may be evacuated still"
    rested = replace(lost, since=NOW - 60)
    assert did(view(spec, rested)) == {"cad-01": DesktopVerb.LOGOFF}
    assert did(view(spec, replace(rested, session=None))) == {"cad-01": DesktopVerb.DELETE}
    assert did(view(spec, lost, asks=(ask("ann"),))) == {"cad-02": DesktopVerb.CREATE}


def test_what_an_owner_has_on_a_lost_host_stays() -> None:
    spec = pool(spare=0, kind=PoolKind.DEDICATED)
    lost = desktop(1, DesktopState.LOST, owner="ann", session=session("ann"), since=0.0)
    assert did(view(spec, lost)) == {}


def test_of_what_could_not_be_looked_at_nothing_is_done() -> None:
    assert did(view(pool(spare=1), desktop(1, DesktopState.UNKNOWN))) == {
        "cad-02": DesktopVerb.CREATE
    }
    assert did(view(pool(spare=1, most=1), desktop(1, DesktopState.UNKNOWN))) == {}


def test_who_asked_first_gets_the_desktop_and_the_other_gets_one_made() -> None:
    asks = (replace(ask("bob"), since=NOW - 1), ask("ann"))
    found = decide_pool(view(pool(spare=0), desktop(1), asks=asks))
    assert [(each.do, each.desktop, each.user) for each in found.actions] == [
        (DesktopVerb.ASSIGN, "cad-01", "bob"),
        (DesktopVerb.CREATE, "cad-02", ""),
    ]
    assert found.counts.waiting == 1


def test_a_user_comes_back_to_what_was_left_and_gets_no_second() -> None:
    away = desktop(1, session=session("ann", disconnected=NOW - 60))
    here = desktop(1, session=session("ann"))
    back = assign(view(pool(), away, desktop(2)), ask("ann"))
    assert not isinstance(back, AssignmentRefusal)
    assert back.desktop == "cad-01"
    again = assign(view(pool(), here, desktop(2)), ask("ann"))
    assert isinstance(again, AssignmentRefusal)
    assert again.code == "too-many"


def test_who_is_not_entitled_gets_none_and_counts_for_nothing() -> None:
    seen = view(pool(spare=0), asks=(ask("mal", "guests"),))
    assert decide_pool(seen).counts.waiting == 0
    refusal = assign(seen, ask("mal", "guests"))
    assert isinstance(refusal, AssignmentRefusal)
    assert (refusal.code, refusal.waits) == ("not-entitled", False)


def test_sessions_nobody_uses_are_disconnected_then_logged_off() -> None:
    spec = pool(spare=0, timeouts=Timeouts(idle_s=600, disconnect_s=3600))
    idle = desktop(1, session=session("ann", active=NOW - 600))
    away = desktop(2, session=session("bob", disconnected=NOW - 3600, active=NOW - 4000))
    here = desktop(3, session=session("cid", active=NOW - 599))
    assert did(view(spec, idle, away, here)) == {
        "cad-01": DesktopVerb.DISCONNECT,
        "cad-02": DesktopVerb.LOGOFF,
    }


def test_a_drained_host_loses_the_idle_at_once_and_users_at_the_deadline() -> None:
    there = [desktop(1), desktop(2, session=session("ann"))]
    spec = pool(spare=1)
    seen = view(spec, *there, draining={"h1": NOW + 1})
    assert did(seen) == {"cad-01": DesktopVerb.DELETE, "cad-03": DesktopVerb.CREATE}
    late = did(replace(seen, draining={"h1": NOW}))
    assert late == {
        "cad-01": DesktopVerb.DELETE,
        "cad-02": DesktopVerb.LOGOFF,
        "cad-03": DesktopVerb.CREATE,
    }


def test_a_closing_pool_empties_as_users_log_off() -> None:
    seen = view(pool(), desktop(1, since=NOW), desktop(2, session=session("ann")), closing=True)
    assert did(seen) == {"cad-01": DesktopVerb.DELETE}


def test_of_a_closing_pool_all_goes_that_nobody_has() -> None:
    broken = desktop(1, DesktopState.FAILED, failures=9)
    shelved = desktop(2, DesktopState.SHELVED, host="")
    hers = desktop(3, DesktopState.SHELVED, owner="ann")
    coming = Rollout(image=NEW, previous=OLD, since=NOW)
    seen = view(pool(), broken, shelved, hers, closing=True, rollout=coming)
    assert did(seen) == {"cad-01": DesktopVerb.DELETE, "cad-02": DesktopVerb.DELETE}


ROLLOUT = Rollout(image=NEW, previous=OLD, since=NOW - 1000)


def test_one_canary_is_sent_and_nobody_gets_it() -> None:
    spec = pool(spare=2)
    seen = view(spec, desktop(1), desktop(2), rollout=ROLLOUT)
    found = decide_pool(seen)
    assert [(each.do, each.desktop, each.image) for each in found.actions] == [
        (DesktopVerb.RECREATE, "cad-01", NEW),
        (DesktopVerb.CREATE, "cad-03", OLD),
    ]
    canary = desktop(1, image=NEW, since=NOW - 299)
    refusal = assign(view(spec, canary, rollout=ROLLOUT), ask("ann"))
    assert isinstance(refusal, AssignmentRefusal)


def test_a_canary_that_stays_ready_lets_the_image_through_step_by_step() -> None:
    spec = pool(spare=0, least=6, update=UpdatePolicy(step=2, min_ready=3))
    canary = desktop(1, image=NEW, since=NOW - 300)
    found = decide_pool(view(spec, canary, *(desktop(n) for n in range(2, 7)), rollout=ROLLOUT))
    assert found.rollout is not None
    assert found.rollout.phase is RolloutPhase.ROLLING
    assert [each.do for each in found.actions] == [DesktopVerb.RECREATE] * 2
    few = decide_pool(view(spec, canary, *(desktop(n) for n in range(2, 5)), rollout=found.rollout))
    assert [each.do for each in few.actions] == [
        DesktopVerb.RECREATE,
        DesktopVerb.CREATE,
        DesktopVerb.CREATE,
    ]


def test_a_canary_that_fails_stops_the_image_and_takes_it_back() -> None:
    canary = desktop(1, DesktopState.FAILED, image=NEW, since=NOW - 60, failures=1)
    found = decide_pool(view(pool(spare=1), canary, rollout=ROLLOUT))
    assert found.rollout is not None
    assert (found.rollout.phase, found.rollout.current) == (RolloutPhase.BACK, OLD)
    assert [(each.do, each.image) for each in found.actions] == [(DesktopVerb.RECREATE, OLD)]
    assert "stopped" in codes(found)
    stay = pool(spare=1, update=UpdatePolicy(rollback=False))
    kept = decide_pool(view(stay, canary, rollout=ROLLOUT)).rollout
    assert kept is not None
    assert kept.phase is RolloutPhase.STOPPED


def test_a_host_that_is_lost_speaks_against_no_image() -> None:
    canary = desktop(1, DesktopState.LOST, image=NEW, since=NOW - 60, host="")
    found = decide_pool(view(pool(spare=1), canary, desktop(2), rollout=ROLLOUT)).rollout
    assert found == ROLLOUT


def test_failures_on_the_way_take_the_image_back_but_not_from_its_users() -> None:
    rolling = replace(ROLLOUT, phase=RolloutPhase.ROLLING)
    user = desktop(1, image=NEW, session=session("ann"))
    idle = desktop(2, image=NEW)
    broken = desktop(3, DesktopState.FAILED, image=NEW, since=NOW - 60, failures=1)
    found = decide_pool(view(pool(spare=2), user, idle, broken, rollout=rolling))
    assert {each.desktop: (each.do, each.image) for each in found.actions} == {
        "cad-02": (DesktopVerb.RECREATE, OLD),
        "cad-03": (DesktopVerb.RECREATE, OLD),
    }


def test_desktops_in_use_get_the_image_at_logoff_or_their_users_are_logged_off() -> None:
    rolling = replace(ROLLOUT, phase=RolloutPhase.ROLLING)
    used = desktop(1, session=session("ann"))
    spec = pool(spare=0)
    assert did(view(spec, used, rollout=rolling)) == {}
    once = replace(spec, update=UpdatePolicy(when=UpdateWhen.AT_ONCE))
    pushed = replace(rolling, since=NOW - 599)
    assert did(view(once, used, rollout=pushed)) == {}, "they are told ten minutes before"
    rolling = replace(rolling, since=NOW - 600)
    assert did(view(once, used, rollout=rolling)) == {"cad-01": DesktopVerb.LOGOFF}


def test_an_owner_s_desktop_is_updated_while_its_owner_is_away() -> None:
    rolling = replace(ROLLOUT, phase=RolloutPhase.ROLLING)
    spec = pool(spare=0, kind=PoolKind.DEDICATED)
    away, here = desktop(1, owner="ann"), desktop(2, owner="bob", session=session("bob"))
    assert did(view(spec, away, here, rollout=rolling)) == {"cad-01": DesktopVerb.UPDATE}


def test_an_owner_s_desktop_that_was_refused_the_image_is_tried_again_and_given_up() -> None:
    rolling = replace(ROLLOUT, phase=RolloutPhase.ROLLING, since=NOW - 500)
    spec = pool(spare=0, kind=PoolKind.DEDICATED, autoheal=Autoheal(after_s=60, attempts=3))
    once = desktop(1, owner="ann", failures=1, since=NOW - 60)
    twice = desktop(2, owner="bob", failures=2, since=NOW - 60)
    ever = desktop(3, owner="eve", failures=3, since=NOW - 400)
    before = desktop(4, owner="zoe", failures=3, since=NOW - 501)
    found = decide_pool(view(spec, once, twice, ever, before, rollout=rolling))
    did_it = {each.desktop: each.do for each in found.actions}
    assert did_it == {"cad-01": DesktopVerb.UPDATE, "cad-04": DesktopVerb.UPDATE}
    assert [each.text for each in found.warnings] == [
        f"cad-03 did not start on {NEW} and keeps {OLD}"
    ]


def test_an_image_that_all_have_is_done() -> None:
    rolling = replace(ROLLOUT, phase=RolloutPhase.ROLLING)
    found = decide_pool(view(pool(spare=1), desktop(1, READY, image=NEW), rollout=rolling)).rollout
    assert found is not None
    assert found.phase is RolloutPhase.DONE


def test_who_waits_is_told_what_for() -> None:
    used = [desktop(n, session=session(f"u{n}")) for n in range(2)]
    full = assign(view(pool(spare=0, most=2), *used), ask("ada"))
    assert isinstance(full, AssignmentRefusal)
    assert full.text == "no desktop is ready: all 2 (the maximum) are in use"
    canary = Rollout(image=NEW, previous=OLD, since=NOW, phase=RolloutPhase.CANARY)
    tried = assign(view(pool(), desktop(1, image=NEW), rollout=canary), ask("ada"))
    assert isinstance(tried, AssignmentRefusal)
    assert tried.text == f"no desktop is ready but cad-01, the canary of {NEW}"

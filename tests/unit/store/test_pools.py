"""Pools, desktops, sessions, asks, bookings: written as read or not at all; closed, never lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Update, update

from tests.poolsim import STAFF, spec
from tests.unit.store.values import fleet, start, vm
from vgpumgr.model.desktop import (
    Booking,
    Desktop,
    DesktopRecord,
    DesktopRequest,
    DesktopRequestRecord,
    DesktopSession,
    DesktopState,
    DesktopVerb,
    PoolRecord,
    Rollout,
    RolloutPhase,
)
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.pool_schedule import Schedule
from vgpumgr.store import SqlLedger
from vgpumgr.store.admin import maintenance
from vgpumgr.store.schema import pool as pools
from vgpumgr.store.schema import pool_session

ADA = DesktopSession(user="ada", since=20.0, active=20.0)


def ledger_with(url: str, *names: str) -> tuple[SqlLedger, PoolRecord]:
    """A ledger with a pool and its desktops, which are being made."""
    ledger = fleet(url)
    hours = Schedule(days=(0, 1), start=480, end=1080, min=2, spare=1)
    ledger.put_pool(PoolRecord(id="p-1", spec=spec(schedules=(hours,)), created_at=5.0))
    ledger.take_desktops([desktop(each) for each in names])
    return ledger, ledger.pool("cad")


def desktop(name: str, **fields: object) -> DesktopRecord:
    it = Desktop(name=name, state=DesktopState.CREATING, image="cad@1", since=10.0)
    values = {"id": f"d-{name}", "pool": "p-1", "desktop": it, "doing": DesktopVerb.CREATE}
    return DesktopRecord(**(values | fields))  # type: ignore[arg-type]


def on(row: DesktopRecord, session: DesktopSession | None, **fields: object) -> DesktopRecord:
    return replace(row, desktop=replace(row.desktop, session=session), **fields)  # type: ignore[arg-type]


def events(ledger: SqlLedger, event: str) -> list[str]:
    return [f"{each.event} {each.vm or each.detail}" for each in ledger.audit(event=event)][::-1]


def test_a_pool_is_read_back_as_it_was_written(url: str) -> None:
    ledger, pool = ledger_with(url)
    assert (pool.spec.entitlement.groups, pool.spec.schedules[0].days) == (STAFF, (0, 1))
    rollout = Rollout(image="cad@2", previous="cad@1", since=30.0)
    ledger.put_pool(replace(pool, rollout=rollout, closing=True))
    [found] = ledger.pools()
    assert found == replace(pool, rollout=rollout, closing=True, generation=pool.generation + 1)
    with pytest.raises(StaleGeneration):
        ledger.put_pool(replace(pool, rollout=replace(rollout, phase=RolloutPhase.DONE)))
    with pytest.raises(StaleGeneration, match="created meanwhile"):
        ledger.put_pool(replace(pool, id="p-2", generation=0))
    with pytest.raises(NotFound, match="no pool cat"):
        ledger.pool("cat")
    assert events(ledger, "pool") == [
        "pool.made cad: cad@1",
        "pool.changed cad: closing, cad@2 canary",
    ]


def test_a_deleted_pool_leaves_its_name(url: str) -> None:
    ledger, pool = ledger_with(url)
    ledger.ask_desktop(
        DesktopRequestRecord(id="a-1", pool="p-1", ask=DesktopRequest(user="ada", since=1.0))
    )
    ledger.put_pool(replace(pool, closed_at=50.0))
    assert (ledger.pools(), ledger.pool_asks()) == ((), ())
    ledger.put_pool(replace(pool, id="p-2", generation=0))
    assert [each.id for each in ledger.pools()] == ["p-2"]


def test_what_is_not_as_it_was_read_is_left_out(url: str) -> None:
    ledger, _ = ledger_with(url, "cad-01", "cad-02")
    first, second = ledger.desktops()
    assert ledger.take_desktops([on(first, ADA)]) == (on(first, ADA),)
    late = [replace(each, doing=DesktopVerb.DELETE) for each in (first, second)]
    assert [each.name for each in ledger.take_desktops(late)] == ["cad-02"]
    assert [each.doing for each in ledger.desktops()] == [DesktopVerb.CREATE, DesktopVerb.DELETE]
    assert ledger.take_desktops([desktop("cad-01", id="d-other")]) == ()
    [one] = ledger.desktops(["cad-02"])
    ledger.take_desktops([replace(one, closed_at=60.0)])
    assert [each.name for each in ledger.desktops()] == ["cad-01"]
    assert ledger.take_desktops([desktop("cad-02", id="d-new")])


def test_two_who_give_at_once_do_not_both(url: str) -> None:
    ledger, pool = ledger_with(url, "cad-01", "cad-02")
    first, second = ledger.desktops()
    ledger.take_desktops([on(first, ADA)], pool)
    with pytest.raises(StaleGeneration):
        ledger.take_desktops([on(second, ADA)], pool)
    assert [each.desktop.session for each in ledger.desktops()] == [ADA, None]


def test_a_session_is_history_when_it_ends(url: str) -> None:
    ledger, _ = ledger_with(url, "cad-01")
    ledger.ask_desktop(
        DesktopRequestRecord(
            id="a-1", pool="p-1", ask=DesktopRequest(user="ada", since=1.0, groups=STAFF)
        )
    )
    [waits] = ledger.pool_asks()
    assert waits.ask.groups == STAFF
    ledger.ask_desktop(
        DesktopRequestRecord(id="a-2", pool="p-1", ask=DesktopRequest(user="ada", since=9.0))
    )
    assert [each.id for each in ledger.pool_asks()] == ["a-1"], "who waits keeps the place"
    ledger.take_desktops([on(ledger.desktops()[0], ADA)])
    assert ledger.pool_asks() == ()
    ledger.take_desktops([on(ledger.desktops()[0], replace(ADA, active=90.0))])
    [there] = ledger.pool_sessions("p-1", 9)
    assert (there.user, there.desktop, there.closed_at) == ("ada", "cad-01", None)
    bob = replace(ADA, user="bob", since=95.0)
    ledger.take_desktops([on(ledger.desktops()[0], bob, why="left")])
    last, first = ledger.pool_sessions("p-1", 9)
    assert (last.user, first.user, first.why) == ("bob", "ada", "left")
    assert first.closed_at is not None
    assert ledger.pool_sessions("p-1", 9, first.closed_at) == (last,)
    assert ledger.pool_sessions("p-1", 9, first.closed_at - 1.0) == (last, first)
    assert events(ledger, "session") == [
        "session.begun cad-01",
        "session.ended cad-01",
        "session.begun cad-01",
    ]
    assert events(ledger, "desktop") == ["desktop.creating cad-01"], "being there is no change"


def test_a_desktop_is_taken_with_its_vm_or_neither_is(url: str) -> None:
    ledger, _ = ledger_with(url, "cad-01")
    [row], made = ledger.desktops(), vm("cad-01")
    begun = start(vms=[made], desktops=(replace(row, vm_id=made.id),))
    ledger.take_desktops([replace(row, why="changed")])
    with pytest.raises(StaleGeneration, match="cad-01 changed"):
        ledger.reserve(begun)
    assert ledger.vms() == ()
    [row] = ledger.desktops()
    ledger.reserve(replace(begun, desktops=(replace(row, vm_id=made.id),)))
    assert [each.vm_id for each in ledger.desktops()] == [made.id]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (update(pool_session).values(closed_at=1.0), "is in an unclear state of use"),
        (update(pools).values(closed_at=1.0), "is left over"),
    ],
)
def test_a_check_names_what_does_not_go_together(tmp_path: Path, wrong: Update, says: str) -> None:
    url = str(tmp_path / "l")
    ledger, _ = ledger_with(url, "cad-01")
    ledger.take_desktops([on(ledger.desktops()[0], ADA)])
    assert maintenance.check(url).problems == ()
    with ledger._database.write() as connection:
        connection.execute(wrong)
    assert [each.what for each in maintenance.check(url).problems] == [f"desktop cad-01 {says}"]


def test_a_booking_holds_until_it_is_cancelled(url: str) -> None:
    ledger = fleet(url)
    booking = Booking(id="b-1", group="lab", profile="T4-4Q", count=3, start=100.0, end=200.0)
    ledger.book(booking, "default")
    assert ledger.bookings() == (booking,)
    ledger.cancel_booking("b-1")
    assert ledger.bookings() == ()
    with pytest.raises(NotFound):
        ledger.cancel_booking("b-1")

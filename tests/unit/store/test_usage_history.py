"""What reports of use are made of, and price books."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.unit.store import test_pools as pools
from tests.unit.store.values import (
    SLOTS,
    allocation,
    board,
    end,
    facts,
    fleet,
    open_ledger,
    start,
    vm,
)
from vgpumgr.model.errors import LedgerError, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.showback import FOREVER, MICROSECONDS, PriceBook, Span
from vgpumgr.store import SqlLedger
from vgpumgr.store.schema import price_book

BOOK = PriceBook(begins_at=100.0, currency="EUR", gpu_hour={"Tesla T4": "0.35", "*": "2"})


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def at(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[SqlLedger]:
    found = open_ledger(url, now=clock)
    found.add_host(HostRecord(name="h1", address="root@h1"))
    look(found, 900.0)
    yield found
    found.close()


def look(ledger: SqlLedger, when: float, host: str = "h1", count: int = 2) -> None:
    shown = [board("h1", number) for number in range(1, count + 1)]
    ledger.observe(facts(host, *shown), {each.device: SLOTS for each in shown}, when)


def test_what_was_held_is_told_with_its_owner_and_its_time(ledger: SqlLedger) -> None:
    gpu = ledger.gpus()[0]
    gone, there = vm("gone"), vm("there")
    there = replace(there, spec=replace(there.spec, tenant="blue"))
    first = start(allocation(gone, gpu, [0, 1]), vms=[gone])
    ledger.reserve(first)
    end(ledger, first)
    whole = replace(allocation(there, ledger.gpus()[0], [2]), profile="passthrough")
    ledger.reserve(start(replace(whole, created_at=2000.0), vms=[there]))
    held = ledger.usage_history(0.0, 3000.0).held
    assert (held.vms, held.tenants) == (("gone", "there"), ("default", "blue"))
    assert (held.since, held.until) == ((60.0, 2000.0), (1000.0, None))
    assert [held.shapes[each] for each in held.shape_of] == [(0, 1), None]
    assert (held.vm_ids, set(held.gpus)) == ((gone.id, there.id), {gpu.id})
    assert ledger.usage_history(1000.0, 3000.0).held.vms == ("there",)
    assert ledger.usage_history(0.0, 2000.0).held.vms == ("gone",)
    assert len(ledger.usage_history(1000.0, 2000.0).held) == 0


def test_a_gpu_was_there_from_its_first_look_except_while_it_was_missing(
    ledger: SqlLedger, clock: Clock
) -> None:
    first, second = ledger.usage_history(0.0, 1.0).gpus
    assert first.present == second.present == (Span(at(900), FOREVER),)
    assert (first.model, first.units) == ("Tesla T4", SLOTS)
    clock.now = 1100.0
    look(ledger, 1100.0, count=1)
    clock.now = 1200.0
    look(ledger, 1200.0)
    clock.now = 1300.0
    ledger.remove_host("h1")
    clock.now = 1400.0
    ledger.add_host(HostRecord(name="h2", address="root@h2"))
    clock.now = 1500.0
    look(ledger, 1500.0, "h2")
    first, second = ledger.usage_history(0.0, 1.0).gpus
    assert first.present == (Span(at(900), at(1300)), Span(at(1500), FOREVER))
    assert second.present == (
        Span(at(900), at(1100)),
        Span(at(1200), at(1300)),
        Span(at(1500), FOREVER),
    )


def test_a_clock_that_was_set_back_ends_nothing_before_it_began(
    ledger: SqlLedger, clock: Clock
) -> None:
    clock.now = 5.0
    look(ledger, 950.0, count=1)
    assert ledger.usage_history(0.0, 1.0).gpus[1].present == (Span(at(900), at(1000)),)


def test_a_vm_of_a_pool_is_told_with_it(url: str) -> None:
    ledger, _ = pools.ledger_with(url, "cad-01", "cad-02")
    desk = vm("cad-01")
    ledger.reserve(start(vms=[desk]))
    ledger.take_desktops([replace(ledger.desktops()[0], vm_id=desk.id)])
    assert ledger.usage_history(0.0, 1.0).pools == {desk.id: "cad"}
    ledger.close()


@pytest.mark.parametrize("column", ["slots", "released_at"])
def test_what_is_no_number_is_told(tmp_path: Path, column: str) -> None:
    ledger = fleet(tmp_path / "l")
    desk = vm("desk")
    ledger.reserve(start(allocation(desk, ledger.gpus()[0], [0]), vms=[desk]))
    with closing(sqlite3.connect(tmp_path / "l")) as raw, raw:
        raw.execute(f"UPDATE allocation SET {column} = '[\"x\"]'")
    with pytest.raises(LedgerError, match="allocation"):
        ledger.usage_history(0.0, 2000.0)
    ledger.close()


def test_a_price_book_is_read_as_it_was_set_last(ledger: SqlLedger) -> None:
    later = replace(BOOK, begins_at=200.5, currency="USD", decimals=0)
    ledger.set_price_book(later)
    ledger.set_price_book(replace(BOOK, gpu_hour={"*": "1"}))
    ledger.set_price_book(BOOK)
    assert ledger.price_books() == (BOOK, later)
    ledger.remove_price_book(200.5)
    assert ledger.price_books() == (BOOK,)
    with pytest.raises(NotFound, match="no price book begins at 1970-01-01T00:03:20"):
        ledger.remove_price_book(200.5)
    removed, set_, *_ = ledger.audit(event="price")
    assert (removed.event, removed.detail) == ("price.removed", "from 1970-01-01T00:03:20.500Z")
    assert set_.detail == "from 1970-01-01T00:01:40.000Z, EUR an hour: * 2, Tesla T4 0.35"


@pytest.mark.parametrize("price", ["", "-1", "1e3", "NaN", "1.", "1234567890"])
def test_what_is_no_price_is_told(ledger: SqlLedger, price: str) -> None:
    with pytest.raises(ValueError, match="is not a price"):
        replace(BOOK, gpu_hour={"*": price})
    ledger.set_price_book(BOOK)
    with ledger._database.write() as connection:
        text = f'{{"begins_at":1.0,"currency":"EUR","gpu_hour":{{"*":"{price}"}}}}'
        connection.execute(update(price_book).values(prices=text))
    with pytest.raises(LedgerError, match="price_book"):
        ledger.price_books()

"""What the ledger keeps of the past: requests with their answers, and what was held when."""

from __future__ import annotations

from sqlalchemy import update

from tests.unit.store.values import allocation, end, fleet, refused, start, vm
from vgpumgr.model.history import Holding, RequestOutcome
from vgpumgr.model.placement import Reason
from vgpumgr.store.schema import request


def test_requests_are_read_newest_first_with_what_was_said(url: str) -> None:
    ledger = fleet(url)
    desk = vm("desk")
    made = start(vms=[desk])
    ledger.reserve(made)
    big = refused("big", at=80.0, text="no room")
    ledger.refuse([big])
    ledger.refuse([])
    end(ledger, made)
    last, first = ledger.requests()
    assert last == big
    assert (first.vm, first.answer, first.at) == ("desk", RequestOutcome.PLACED, 70.0)
    assert (first.spec, first.explanation) == (desk.spec, None)
    assert ledger.requests(since=75.0) == ledger.requests(vm="big") == (last,)
    assert ledger.requests(limit=1) == (last,)
    ledger.close()


def test_sentences_of_older_ledgers_are_read_too(url: str) -> None:
    ledger = fleet(url)
    ledger.refuse([refused("big")])
    with ledger._database.write() as connection:
        connection.execute(update(request).values(reasons='["no room"]'))
    (old,) = ledger.requests()
    assert old.explanation is not None
    assert old.explanation.reasons == (Reason(code="", host="", text="no room"),)
    assert old.explanation.line == "big fits nowhere: no room"
    ledger.close()


def test_what_was_held_has_an_end_when_it_was_given_back(url: str) -> None:
    ledger = fleet(url)
    gpu = ledger.gpus()[0]
    gone, there = vm("gone"), vm("there")
    first = start(allocation(gone, gpu, [0, 1]), vms=[gone])
    ledger.reserve(first)
    end(ledger, first)
    ledger.reserve(start(allocation(there, ledger.gpus()[0], [2]), vms=[there]))
    holds, held = sorted(ledger.holdings(), key=lambda each: each.units)
    assert held.until is not None
    assert (held.units, held.gpu) == (2, gpu.id)
    assert ledger.holdings(held.until) == (holds,)
    assert set(ledger.holdings(held.until - 1.0)) == {held, holds}
    assert holds == Holding(gpu=gpu.id, profile=held.profile, units=1, since=holds.since)
    ledger.close()

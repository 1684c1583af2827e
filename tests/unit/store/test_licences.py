"""Licence seats: kept, and held by the ledger in the transaction that would take more."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.unit.store.test_quotas import makes
from tests.unit.store.values import fleet, open_ledger
from vgpumgr.model.errors import NoSeatLeft, NotFound, VgpumgrError
from vgpumgr.model.licence import Edition, Licence, edition_of, seats_of
from vgpumgr.model.operation import Reservation
from vgpumgr.store import SqlLedger

ONE_SEAT = Licence(edition=Edition.VWS, seats=1)


@pytest.mark.parametrize(
    ("profile", "edition"),
    [
        ("A40-8Q", "vws"),
        ("A40-2B4", "vpc"),
        ("GRID T4-1A", "vapps"),
        ("H100-1-10CME", "nvaie"),
        ("1g.10gb", "nvaie"),
        ("1g.24gb+gfx", "vws"),
        ("1g.10gb+me", "nvaie"),
        ("passthrough", None),
        ("mtty-1", None),
        ("i915-GVTg_V5_4", None),
    ],
)
def test_the_series_says_the_edition(profile: str, edition: str | None) -> None:
    assert edition_of(profile) == edition


def test_a_vm_takes_one_seat_of_each_edition() -> None:
    assert seats_of(["A40-8Q", "A40-4Q", "passthrough", "A40-8C"]) == {"nvaie": 1, "vws": 1}


def test_seats_are_read_as_they_were_set_last(url: str) -> None:
    ledger = fleet(url)
    ledger.set_licence(ONE_SEAT)
    ledger.set_licence(replace(ONE_SEAT, seats=40))
    ledger.set_licence(Licence(edition=Edition.VPC, seats=0))
    assert [(each.edition, each.seats) for each in ledger.licences()] == [("vpc", 0), ("vws", 40)]
    ledger.delete_licence(Edition.VPC)
    assert [each.event for each in ledger.audit(event="licence")] == [
        *("licence.deleted", "licence.set", "licence.set", "licence.set")
    ]
    with pytest.raises(NotFound, match="no seats are declared for licence vpc"):
        ledger.delete_licence(Edition.VPC)


def test_a_vm_for_which_no_seat_is_left_writes_nothing(url: str) -> None:
    ledger = fleet(url)
    ledger.set_licence(ONE_SEAT)
    ledger.reserve(makes(ledger, "a", range(4)))
    with pytest.raises(NoSeatLeft) as caught:
        ledger.reserve(makes(ledger, "b", range(4, 8), tenant="cad"))
    assert caught.value.why == "licence vws: 1 of 1 seats used, 1 asked"
    assert "vgpumgr licence set vws --seats 2" in caught.value.next
    assert (caught.value.code, caught.value.exit_status) == ("licence-exceeded", 5)
    assert [each.name for each in ledger.vms()] == ["a"]
    ledger.set_licence(replace(ONE_SEAT, seats=2))
    ledger.reserve(makes(ledger, "b", range(4, 8), tenant="cad"))


def test_other_editions_and_undeclared_ones_are_not_limited(url: str) -> None:
    ledger = fleet(url)
    ledger.set_licence(Licence(edition=Edition.VPC, seats=0))
    ledger.reserve(makes(ledger, "a", range(4)))
    ledger.set_licence(replace(ONE_SEAT, seats=0))  # what is taken stays
    assert [each.name for each in ledger.vms()] == ["a"]


def test_two_at_once_never_take_more_seats_than_there_are(url: str) -> None:
    """Of different tenants, with different slots: only the seat is between them."""
    ledgers = [fleet(url), open_ledger(url)]
    ledgers[0].set_licence(ONE_SEAT)
    plans = [
        makes(ledgers[0], f"vm-{n}", range(n * 4, n * 4 + 4), tenant=f"t{n}") for n in range(2)
    ]
    meeting, ends = threading.Barrier(2), []

    def reserve(ledger: SqlLedger, plan: Reservation) -> None:
        meeting.wait()
        try:
            ledger.reserve(plan)
        except VgpumgrError as error:
            ends.append(error.code)
        else:
            ends.append("won")

    threads = [
        threading.Thread(target=reserve, args=each) for each in zip(ledgers, plans, strict=True)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(ends) == ["licence-exceeded", "won"]
    assert len(ledgers[0].allocations()) == 1

"""What a controller reads of one host and of guests; the epoch of a process after it raised it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.store.test_moving import end, move, settled
from tests.unit.store.values import allocation, fleet, open_ledger, start, vm
from vgpumgr.model.guest import GuestSpec
from vgpumgr.store import SqlLedger


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    opened = fleet(url, ["h1", "h2", "h3"])
    yield opened
    opened.close()


def names(ledger: SqlLedger, host: str, *ids: str) -> tuple[list[str], list[str]]:
    """The VMs that are read for a host, and whose allocations."""
    vms = ledger.vms(host, ids)
    held = ledger.allocations(host, [each.id for each in vms])
    return [each.name for each in vms], sorted(f"{each.vm} on {each.host}" for each in held)


def test_the_vms_of_a_host_and_those_that_are_asked_for_by_id(ledger: SqlLedger) -> None:
    for host in ("h1", "h2", "h3"):
        made = vm(f"on-{host}", host)
        ledger.reserve(start(allocation(made, ledger.gpus(host)[0], [0]), vms=[made]))
    assert names(ledger, "h2") == (["on-h2"], ["on-h2 on h2"])
    other = ledger.vm("on-h3").id
    assert names(ledger, "h2", other) == (["on-h2", "on-h3"], ["on-h2 on h2", "on-h3 on h3"])
    assert names(ledger, "none") == ([], [])
    assert len(ledger.vms()) == len(ledger.allocations()) == 3


def test_vms_with_guests_whatever_their_texts_say(ledger: SqlLedger) -> None:
    said = {"note": '"guest":null'}
    for name, guest in (("plain", None), ("desk", GuestSpec()), ("bare", None)):
        made = vm(name, "h1")
        labels = {} if name == "bare" else said
        made = replace(made, spec=replace(made.spec, guest=guest, labels=labels))
        ledger.reserve(start(vms=[made]))
    assert [each.name for each in ledger.vms_with_guests()] == ["desk"]


def test_a_vm_that_moves_is_of_both_hosts(ledger: SqlLedger) -> None:
    settled(ledger)
    job, _ = move(ledger)
    both = (["desk"], ["desk on h1", "desk on h2"])
    assert names(ledger, "h1") == names(ledger, "h2") == both
    assert names(ledger, "h3") == ([], [])
    end(ledger, job, arrived=True)
    assert names(ledger, "h1") == ([], [])
    assert names(ledger, "h2") == (["desk"], ["desk on h2"])


def test_who_raises_the_epoch_speaks_it(ledger: SqlLedger, url: str) -> None:
    other = open_ledger(url)
    assert (ledger.spoken_epoch(), other.spoken_epoch()) == (1, 1)
    assert ledger.raise_epoch(7) == ledger.spoken_epoch() == 7
    ledger.freeze("it went back in time")
    ledger.thaw(9)
    assert (ledger.epoch(), ledger.spoken_epoch(), other.spoken_epoch()) == (9, 9, 1)

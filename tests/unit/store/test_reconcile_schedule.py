"""Whose turn it is to be looked at, by the ledger: each host goes to one controller at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

import pytest

from tests.unit.store.values import board, facts, fleet, open_ledger
from vgpumgr.model.errors import NotFound
from vgpumgr.model.host import HostRecord, UnchangedLook
from vgpumgr.store.sql_ledger import SqlLedger

NOW = 1_700_000_000.0


@pytest.fixture
def ledger(url: str) -> SqlLedger:
    """With hosts a, b and c that were never looked at."""
    made = open_ledger(url)
    for name in "abc":
        made.add_host(HostRecord(name=name, address=f"root@{name}"))
    return made


def taken(ledger: SqlLedger, now: float, until: float) -> list[str]:
    """Every host that is due, in the order in which they are given."""
    found = []
    while host := ledger.take_hosts(now, until, 1):
        found.extend(host)
    return found


def test_new_hosts_are_due_and_each_is_given_once(ledger: SqlLedger) -> None:
    assert taken(ledger, NOW, NOW + 30) == ["a", "b", "c"]
    assert taken(ledger, NOW + 29, NOW + 60) == []
    assert taken(ledger, NOW + 30, NOW + 60) == ["a", "b", "c"]


def test_who_waits_longest_is_first(ledger: SqlLedger) -> None:
    for host, at in (("a", NOW - 1), ("b", NOW - 3), ("c", NOW - 2)):
        ledger.host_due(host, at)
    assert taken(ledger, NOW, NOW + 30) == ["b", "c", "a"]


def test_what_is_due_much_later_than_anybody_puts_it_off_was_written_by_a_wrong_clock(
    ledger: SqlLedger,
) -> None:
    ledger.host_due("a", NOW + 1e6)
    ledger.host_due("b", NOW + 3000)
    assert taken(ledger, NOW, NOW + 30) == ["c", "a"]


def test_a_host_that_left_has_no_turn(ledger: SqlLedger) -> None:
    ledger.remove_host("b")
    assert taken(ledger, NOW, NOW + 30) == ["a", "c"]
    with pytest.raises(NotFound):
        ledger.host_due("b", NOW)


def test_a_turn_changes_nothing_that_others_compare(ledger: SqlLedger) -> None:
    before = ledger.hosts()
    taken(ledger, NOW, NOW + 30)
    ledger.host_due("a", NOW)
    assert ledger.hosts() == before


def test_controllers_that_ask_at_the_same_time_get_different_hosts(url: str) -> None:
    ledgers = [open_ledger(url) for _ in range(4)]
    names = [f"h{number:02}" for number in range(40)]
    for name in names:
        ledgers[0].add_host(HostRecord(name=name, address=f"root@{name}"))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: taken(each, NOW, NOW + 30), ledgers))
    assert sorted(chain.from_iterable(found)) == names


def test_many_hosts_are_taken_at_once_those_first_that_wait_longest(ledger: SqlLedger) -> None:
    ledger.hosts_due({"c": NOW - 3, "b": NOW - 2, "a": NOW - 1, "gone": NOW})
    assert ledger.take_hosts(NOW, NOW + 30, 2) == ("c", "b")
    assert ledger.take_hosts(NOW, NOW + 30, 2) == ("a",)
    assert ledger.take_hosts(NOW, NOW + 30, 2) == ()
    ledger.hosts_due({"b": NOW, "a": NOW + 1})
    assert ledger.take_hosts(NOW, NOW + 30, 9) == ("b",)


def test_controllers_that_take_many_at_the_same_time_get_different_hosts(url: str) -> None:
    ledgers = [open_ledger(url) for _ in range(4)]
    names = [f"h{number:02}" for number in range(40)]
    for name in names:
        ledgers[0].add_host(HostRecord(name=name, address=f"root@{name}"))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: each.take_hosts(NOW, NOW + 30, 15), ledgers * 2))
    assert sorted(chain.from_iterable(found)) == names


def test_a_look_without_change_moves_nothing_but_when_the_host_was_seen(url: str) -> None:
    ledger = fleet(url, ["a", "b"])
    before, gpus = ledger.hosts(), ledger.gpus()
    looks = [UnchangedLook(host=each, before=100.0, at=NOW + 0.1) for each in ("a", "b", "gone")]
    assert ledger.looked_again(looks) == {"a", "b"}
    assert ledger.hosts() == tuple(replace(each, observed_at=NOW + 0.1) for each in before)
    assert ledger.gpus() == gpus
    assert ledger.looked_again([]) == frozenset()


def test_a_look_without_change_is_not_kept_where_it_is_compared_with_another(url: str) -> None:
    ledger = fleet(url, ["a", "b", "c"])
    ledger.observation_failed("a", "no answer")
    ledger.observe(facts("b", board("b", 1), cpus=99), {}, 200.0)
    before = ledger.hosts()
    looks = [UnchangedLook(host=each, before=100.0, at=NOW) for each in "abc"]
    assert ledger.looked_again(looks) == {"c"}
    assert ledger.hosts()[:2] == before[:2]

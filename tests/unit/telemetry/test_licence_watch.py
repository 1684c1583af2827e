"""Guests without a licence are told after a while, once; editions when they are nearly used up."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from vgpumgr.app.telemetry_schedule import licence_event
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.telemetry.licence_watch import LicenceWatch


def gpu(vm: str, licensed: int | None, host: str = "h1") -> Any:
    held = SimpleNamespace(vm=vm, host=host, profile="A40-8Q")
    figures = {} if licensed is None else {"licensed": licensed}
    part = SimpleNamespace(part=SimpleNamespace(allocation=held), figures=figures)
    return SimpleNamespace(parts=(part,))


class Watched:
    def __init__(self) -> None:
        self.watch = LicenceWatch(patience_s=1200.0)

    def at(self, now: float, licensed: int | None, host: str = "h1") -> list[tuple[str, str]]:
        return list(self._events(now, licensed, host))

    def _events(self, now: float, licensed: int | None, host: str) -> Iterator[tuple[str, str]]:
        for notice in self.watch.guests([gpu("desk", licensed, host)], now):
            event = licence_event(notice)
            yield str(event.kind), event.text


def test_a_guest_is_told_once_after_a_while_and_when_it_is_over() -> None:
    desk = Watched()
    assert desk.at(0, 0) == desk.at(1199, 0) == []
    text = "the guest of desk has had no licence for 20 minutes (A40-8Q)"
    assert desk.at(1200, 0) == [("vm-unlicensed", text)]
    assert desk.at(1300, 0) == []
    assert desk.at(1400, 1) == [("vm-licensed", "desk has its licence")]
    assert desk.at(1500, 1) == []


def test_a_guest_that_tells_nothing_stays_as_it_is_and_one_that_found_its_licence_is_not_told() -> (
    None
):
    desk = Watched()
    assert desk.at(0, 0) == desk.at(100, None) == []
    assert [kind for kind, _ in desk.at(1200, 0)] == ["vm-unlicensed"]
    other = Watched()
    assert other.at(0, 0) == other.at(600, 1) == other.at(700, 0) == other.at(1500, 0) == []


def test_a_guest_that_started_elsewhere_is_given_its_while_again() -> None:
    desk = Watched()
    assert desk.at(0, 0) == desk.at(1100, 0, host="h2") == desk.at(1300, 0, host="h2") == []
    assert len(desk.at(2300, 0, host="h2")) == 1


def test_a_guest_that_was_off_for_a_night_is_given_its_while_again() -> None:
    desk = Watched()
    assert desk.at(0, 0) == desk.at(40_000, 0) == desk.at(41_000, 0) == []
    [(_, text)] = desk.at(41_300, 0)
    assert "no licence for 21 minutes" in text


def test_an_edition_is_told_once_when_nine_tenths_are_used() -> None:
    watch = LicenceWatch()
    licences = [Licence(edition=Edition.VWS, seats=10)]

    def told(used: int) -> list[tuple[str, str]]:
        events = map(licence_event, watch.seats(licences, {"vws": used}))
        return [(str(each.kind), each.text) for each in events]

    assert told(8) == []
    assert told(9) == [("licence-short", "licence vws: 9 of 10 seats are used")]
    assert told(10) == []
    assert told(5) == [("licence-short-ended", "licence vws: 5 of 10 seats are left")]

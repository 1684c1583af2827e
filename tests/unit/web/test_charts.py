"""Pictures of numbers: what they say in words, and where they are drawn."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from vgpumgr.web.charts import (
    HEIGHT,
    WIDTH,
    area_chart,
    concurrent,
    lasting_bars,
    longest,
    sparkline,
    spread,
)
from vgpumgr.web.rendering import drawn_width, slot_paths

BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
HOURS = [BEGIN + timedelta(hours=n) for n in range(4)]


def test_a_chart_says_what_it_shows_and_stays_in_its_frame() -> None:
    chart = area_chart(HOURS, [0, 2, 4, 1], 8, "slots", 3)
    assert chart.summary == "3 of 8 slots now; 1.8 on average, 4 at most"
    across = [float(each) for each in re.findall(r"[MLH](-?[\d.]+)", chart.line)]
    assert min(across) >= 0 and max(across) <= WIDTH
    assert chart.line.count("H") == len(HOURS)
    assert [each.text for each in chart.up] == ["0", "2", "4", "6", "8"]
    assert chart.up[0].at > chart.up[-1].at and chart.up[0].at < HEIGHT


def test_nothing_is_drawn_of_nothing() -> None:
    chart = area_chart([], [], 0, "slots", 0)
    assert (chart.line, chart.area, chart.across) == ("", "", ())


def test_sessions_are_counted_while_they_last() -> None:
    spans = [(HOURS[0], HOURS[2]), (HOURS[1], None)]
    times, values = concurrent(spans, BEGIN, BEGIN + timedelta(hours=4), 4)
    assert times == HOURS
    assert values == [1, 2, 1, 1]


def test_sessions_are_counted_at_their_most() -> None:
    def at(hour: float) -> datetime:
        return BEGIN + timedelta(hours=hour)

    spans = [(at(-2), at(-1)), (at(-1), at(0.5)), (at(0.2), at(0.4)), (at(0.5), at(0.9)),
             (at(3.9), None)]  # fmt: skip
    assert concurrent(spans, BEGIN, at(4), 4)[1] == [2, 0, 0, 1]
    assert concurrent([(at(0), at(1)), (at(1), at(2))], BEGIN, at(4), 4)[1] == [1, 1, 0, 0]
    assert concurrent([], BEGIN, at(4), 2)[1] == [0, 0]


def test_slots_are_drawn_in_as_few_paths_as_there_are_kinds() -> None:
    paths = {each.kind: each for each in slot_paths("AABB..##=.")}
    assert set(paths) == {"used", "free", "foreign", "instance"}
    assert paths["used"].data.count("M") == 2 and not paths["used"].dashes
    assert paths["free"].data.count("M") == 2 and paths["free"].dashes
    assert drawn_width("AABB..##=.") == 100
    assert drawn_width("." * 80) <= 320


def test_a_chart_says_its_numbers_in_few_rows() -> None:
    times = [BEGIN + timedelta(hours=n) for n in range(168)]
    rows = area_chart(times, [float(n) for n in range(168)], 168, "slots", 0).rows
    assert len(rows) <= 24 and rows[0] == (BEGIN.isoformat(), 3.0)
    assert rows[-1][1] == 164.0
    assert area_chart([], [], 0, "slots", 0).rows == ()


def test_waits_are_counted_once_each_by_their_length() -> None:
    found = spread([0.0, 59.0, 60.0, 3600.0, 90000.0], [86400.0])
    assert [each.now for each in found.rows] == [2, 1, 0, 1, 0, 1]
    assert [each.then for each in found.rows] == [0, 0, 0, 0, 0, 1]
    assert (found.most, found.rows[-1].text) == (2, "longer than a day")
    assert spread([], []).most == 0


def test_the_longest_wait_of_each_part_is_told() -> None:
    waits = [(HOURS[0], 5.0), (HOURS[0] + timedelta(minutes=59), 9.0), (HOURS[2], 7.0)]
    late = (BEGIN + timedelta(hours=4), 99.0), (BEGIN - timedelta(hours=1), 99.0)
    assert longest([*waits, *late], BEGIN, BEGIN + timedelta(hours=4), 4) == (HOURS, [9, 0, 7, 0])
    chart = area_chart(HOURS, [9, 0, 7, 0], None, "minutes", 12)
    assert chart.summary == "12 minutes now; 4 on average, 12 at most"


def test_a_forecast_is_drawn_as_parts_of_a_year() -> None:
    def item(profile: str, safe: int | None, likely: int | None) -> dict[str, object]:
        return {"profile": profile, "lasting": {"days_90": safe, "days_50": likely}}

    bars = lasting_bars([item("a", 73, None), item("b", 0, 365), {"profile": "c", "lasting": None}])
    assert [(each.profile, each.safe, each.likely) for each in bars] == [
        ("b", 0, 100),
        ("a", 20, 100),
    ]


def test_an_hour_is_a_line_that_breaks_where_nothing_was_told() -> None:
    picture = sparkline([0.0, 0.5, None, 1.0])
    assert picture is not None
    assert picture.summary == "0 % to 100 % busy in the last hour"
    assert picture.line == "M0 26H45L45 14H90M135 2H180"


def test_an_hour_of_which_nothing_is_known_has_no_picture() -> None:
    assert sparkline([]) is None
    assert sparkline([None, None]) is None

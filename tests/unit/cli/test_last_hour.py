"""The last hour as characters: blocks where the terminal has them, plain ones where not."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import pytest

from vgpumgr.cli import terminal
from vgpumgr.cli.views.figure_views import hour_text, sparkline, top_text

HOUR = [0.0, None, 0.5, 1.0] * 15


def told(name: str, hour: list[float | None]) -> dict[str, Any]:
    nothing = dict.fromkeys(
        (
            "memory_used_bytes",
            "memory_total_bytes",
            "temperature_c",
            "power_w",
            "recovery_action",
            "xids",
        )
    )
    return {
        **nothing,
        "host": name,
        "number": 0,
        "model": "L40S",
        "utilization": 0.4,
        "throttled": [],
        "given_away": False,
        "health": "healthy",
        "hour": hour,
        "parts": [],
    }


@pytest.fixture(autouse=True)
def utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))


def test_a_character_is_the_busiest_of_its_minutes() -> None:
    assert sparkline([0.0, None, 0.5, 1.0], 4) == "▁ ▅█"
    assert sparkline([0.0, None, 0.5, 1.0], 2) == "▁█"
    assert hour_text(HOUR) == "▁█" * 15 + "  0 to 100 % busy"


def test_one_figure_is_no_range_and_none_is_no_line() -> None:
    assert hour_text([None] * 59 + [0.25]).endswith("▃  25 % busy")
    assert hour_text([]) == hour_text([None] * 60) == ""


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-1", "cp437"])
def test_a_terminal_without_utf_8_gets_ascii(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    assert not terminal.has_blocks()
    assert hour_text(HOUR).isascii()
    assert sparkline([0.0, None, 0.5, 1.0], 4) == "_ =#"


def test_the_plain_locale_has_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert sparkline([1.0], 1) == "#"


def test_a_stream_without_an_encoding_is_plain() -> None:
    with mock.patch("sys.stdout", io.StringIO()):
        assert sparkline([1.0], 1) == "#"


def top_of(*items: dict[str, Any]) -> str:
    answer: Any = {"name": "top", "at": None, "interval_s": None, "silent": [], "items": [*items]}
    return top_text(answer)


def test_top_has_the_hour_where_any_is_kept() -> None:
    with_hour = top_of(told("a", HOUR), told("b", []))
    assert "BUSY  LAST HOUR" in with_hour
    assert "40 %  " + "█" * 12 in with_hour
    assert "LAST HOUR" not in top_of(told("a", []))

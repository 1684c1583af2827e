"""Pictures of numbers over time, as SVG path data: pure geometry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

WIDTH, HEIGHT = 640, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 8, 24
_SPARK_WIDTH, _SPARK_HEIGHT = 180, 28
TICKS = 6
MOST_ROWS = 24
"""Of the table that says what a chart shows."""
WAITS = ((60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (14400.0, "4 h"), (86400.0, "a day"))


@dataclass(frozen=True, slots=True)
class ChartTick:
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class AreaChart:
    """An area under a line of steps, with its axes; ``summary`` says the same in words, ``rows`` in
    numbers: from when on, and how many on average until the next row.
    """

    area: str
    line: str
    across: tuple[ChartTick, ...]
    up: tuple[ChartTick, ...]
    summary: str
    rows: tuple[tuple[str, float], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    bottom: int = HEIGHT - _BOTTOM


def area_chart(
    times: Sequence[datetime], values: Sequence[float], most: float | None, unit: str, now: float
) -> AreaChart:
    """The chart of a value for each span that begins at one of ``times``, all of one length, of
    ``most`` (None: what there was) at the top. ``now`` is the value at this moment.
    """
    top = max(most or 0.0, max(values, default=0.0), 1.0)
    wide = (WIDTH - _LEFT - _RIGHT) / max(len(values), 1)

    def x(number: float) -> float:
        return round(_LEFT + number * wide, 1)

    def y(value: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - value / top), 1)

    steps = [f"{x(number):g} {y(value):g}H{x(number + 1):g}" for number, value in enumerate(values)]
    line = f"M{'L'.join(steps)}" if steps else ""
    floor = y(0)
    area = f"{line}V{floor:g}H{_LEFT}z" if steps else ""
    every = max(1, len(times) // TICKS)
    across = tuple(
        ChartTick(x(number), _when(times[number], times)) for number in range(0, len(times), every)
    )
    up = tuple(ChartTick(y(top * n / 4), f"{top * n / 4:.3g}") for n in range(5))
    peak = max((*values, now))
    mean = sum(values) / len(values) if values else 0.0
    summary = (
        f"{_number(now)}{'' if most is None else f' of {_number(most)}'} {unit} now; "
        f"{_number(mean)} on average, {_number(peak)} at most"
    )
    return AreaChart(area, line, across, up, summary, _rows(times, values))


def _number(value: float) -> str:
    return f"{round(value, 1):,g}"


def _rows(times: Sequence[datetime], values: Sequence[float]) -> tuple[tuple[str, float], ...]:
    every = max(1, -(-len(values) // MOST_ROWS))
    some = [(times[n].isoformat(), values[n : n + every]) for n in range(0, len(values), every)]
    return tuple((at, round(sum(part) / len(part), 2)) for at, part in some)


def _when(at: datetime, times: Sequence[datetime]) -> str:
    long = (times[-1] - times[0]).total_seconds()
    return at.astimezone(UTC).strftime("%H:%M" if long <= 2 * 86400 else "%d %b")


def concurrent(
    spans: Iterable[tuple[datetime, datetime | None]], begin: datetime, end: datetime, count: int
) -> tuple[list[datetime], list[float]]:
    """How many of the spans (None: still) there are at once, at most, in each of ``count`` parts
    of the time.
    """
    part = (end - begin) / count
    times = [begin + number * part for number in range(count)]
    changes = sorted(
        (max(at, begin), change)
        for since, until in spans
        for at, change in ((since, 1), (until or end, -1))
    )
    values, now, done = [], 0, 0
    for number, each in enumerate(times):
        until, most = begin + (number + 1) * part, -1
        while done < len(changes) and changes[done][0] < until:
            at, change = changes[done]
            most = max(most, now) if at > each else most
            now, done = now + change, done + 1
        values.append(float(max(most, now)))
    return times, values


def longest(
    waits: Iterable[tuple[datetime, float]], begin: datetime, end: datetime, count: int
) -> tuple[list[datetime], list[float]]:
    """The longest of the waits that ended in each of ``count`` parts of the time; 0: none did."""
    part = (end - begin) / count
    values = [0.0] * count
    for at, seconds in waits:
        number = int((at - begin) / part)
        if 0 <= number < count:
            values[number] = max(values[number], seconds)
    return [begin + number * part for number in range(count)], values


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line of shares without axes; ``summary`` says the same in words."""

    line: str
    summary: str
    width: int = _SPARK_WIDTH
    height: int = _SPARK_HEIGHT


def sparkline(shares: Sequence[float | None]) -> Sparkline | None:
    """The line of shares (0 to 1) of equal spans of time, broken where one is None; None where
    all are.
    """
    told = [each for each in shares if each is not None]
    if not told:
        return None
    wide, high = _SPARK_WIDTH / len(shares), _SPARK_HEIGHT
    line, before = [], None
    for number, share in enumerate(shares):
        if share is not None:
            begin, end = round(number * wide, 1), round((number + 1) * wide, 1)
            y = round(2 + (high - 4) * (1 - share), 1)
            line.append(f"{'M' if before is None else 'L'}{begin:g} {y:g}H{end:g}")
        before = share
    words = f"{min(told):.0%} to {max(told):.0%} busy in the last hour".replace("%", " %")
    return Sparkline("".join(line), words)


@dataclass(frozen=True, slots=True)
class LastingBar:
    """For how long a profile's room lasts: ``safe`` days nine times in ten, ``likely`` days as
    likely as not, both in percent of a year.
    """

    profile: str
    safe: float
    likely: float


def lasting_bars(items: Iterable[Mapping[str, Any]]) -> tuple[LastingBar, ...]:
    """Of the profiles that have a forecast, those first whose room is gone first."""
    bars = [
        LastingBar(
            each["profile"], *(_share(each["lasting"][key]) for key in ("days_90", "days_50"))
        )
        for each in items
        if each["lasting"] is not None
    ]
    return tuple(sorted(bars, key=lambda each: (each.safe, each.likely, each.profile)))


def _share(days: int | None) -> float:
    return 100.0 if days is None else round(min(100.0, days / 3.65), 1)


@dataclass(frozen=True, slots=True)
class WaitRow:
    """How many wait ``now`` for about so long, and how many waited so ``then``."""

    text: str
    now: int
    then: int


@dataclass(frozen=True, slots=True)
class WaitSpread:
    """Waits by their length; ``most`` is the largest number in it."""

    rows: tuple[WaitRow, ...]
    most: int


def spread(now: Sequence[float], then: Sequence[float]) -> WaitSpread:
    """Waits (seconds each) by their length: what waits now, and what waited before it started."""
    bounds = [0.0, *(bound for bound, _ in WAITS), float("inf")]
    names = [f"up to {text}" for _, text in WAITS] + [f"longer than {WAITS[-1][1]}"]
    rows = tuple(
        WaitRow(name, *(sum(low <= each < high for each in some) for some in (now, then)))
        for name, low, high in zip(names, bounds, bounds[1:], strict=False)
    )
    return WaitSpread(rows, max(max(each.now, each.then) for each in rows))

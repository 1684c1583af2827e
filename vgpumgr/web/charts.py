"""Pictures of numbers over time, as SVG path data: pure geometry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

WIDTH, HEIGHT = 960, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 8, 24
TICKS = 6


@dataclass(frozen=True, slots=True)
class ChartTick:
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class AreaChart:
    """An area under a line of steps, with its axes; ``summary`` says the same in words."""

    area: str
    line: str
    across: tuple[ChartTick, ...]
    up: tuple[ChartTick, ...]
    summary: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    bottom: int = HEIGHT - _BOTTOM


def area_chart(
    times: Sequence[datetime], values: Sequence[float], most: float, unit: str
) -> AreaChart:
    """The chart of a value for each span that begins at one of ``times``, all of one length, of
    ``most`` at the top.
    """
    top = max(most, max(values, default=0.0), 1.0)
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
    peak = max(values, default=0.0)
    now = values[-1] if values else 0.0
    mean = sum(values) / len(values) if values else 0.0
    summary = (
        f"{now:.4g} of {most:.4g} {unit} at the end; {mean:.4g} on average, {peak:.4g} at most"
    )
    return AreaChart(area, line, across, up, summary)


def _when(at: datetime, times: Sequence[datetime]) -> str:
    long = (times[-1] - times[0]).total_seconds()
    return at.astimezone(UTC).strftime("%H:%M" if long <= 2 * 86400 else "%d %b")


def concurrent(
    spans: Sequence[tuple[datetime, datetime | None]], begin: datetime, end: datetime, count: int
) -> tuple[list[datetime], list[float]]:
    """How many of the spans (None: still) lie over the middle of each of ``count`` parts."""
    part = (end - begin) / count
    times = [begin + number * part for number in range(count)]
    values = []
    for each in times:
        middle = each + part / 2
        open_then = (
            since <= middle and (until is None or until > middle) for since, until in spans
        )
        values.append(float(sum(open_then)))
    return times, values

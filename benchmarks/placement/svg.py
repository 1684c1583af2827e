"""Line charts as SVG, drawn with the standard library."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 820, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 210, 34, 44
COLOURS = (
    *("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"),
    *("#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#000000", "#98df8a"),
)

Line = Sequence[tuple[float, float]]


def chart(title: str, axes: tuple[str, str], lines: Mapping[str, Line], bottom: float) -> str:
    """The lines by name, each through its points; values under ``bottom`` are cut off."""
    points = [point for line in lines.values() for point in line]
    xs, ys = sorted({x for x, _ in points}), [y for _, y in points]
    span = (xs[0], xs[-1], bottom, max(ys))
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}",
        style="font: 12px sans-serif; background: white",
    )  # fmt: skip
    _text(svg, WIDTH / 2, 18, title, anchor="middle")
    _axes(svg, span, axes)
    for number, (name, line) in enumerate(lines.items()):
        _line(svg, span, line, name, number)
    return ET.tostring(svg, encoding="unicode") + "\n"


_Span = tuple[float, float, float, float]


def _x(span: _Span, value: float) -> float:
    return LEFT + (value - span[0]) / ((span[1] - span[0]) or 1) * (WIDTH - LEFT - RIGHT)


def _y(span: _Span, value: float) -> float:
    part = (max(value, span[2]) - span[2]) / ((span[3] - span[2]) or 1)
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)


def _axes(svg: ET.Element, span: _Span, names: tuple[str, str]) -> None:
    for step in range(6):
        x = span[0] + (span[1] - span[0]) * step / 5
        y = span[2] + (span[3] - span[2]) * step / 5
        _rule(svg, (_x(span, span[0]), _y(span, y)), (_x(span, span[1]), _y(span, y)))
        _text(svg, LEFT - 6, _y(span, y) + 4, f"{y:.1f}", anchor="end")
        _text(svg, _x(span, x), HEIGHT - BOTTOM + 18, f"{x:g}", anchor="middle")
    _text(svg, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, names[0], anchor="middle")
    _text(svg, 4, TOP - 10, names[1], anchor="start")


def _line(svg: ET.Element, span: _Span, line: Line, name: str, number: int) -> None:
    colour = COLOURS[number % len(COLOURS)]
    points = " ".join(f"{_x(span, x):.1f},{_y(span, y):.1f}" for x, y in line)
    shape = {"points": points, "fill": "none", "stroke": colour, "stroke-width": "2"}
    if number >= len(COLOURS):
        shape["stroke-dasharray"] = "5 3"
    ET.SubElement(svg, "polyline", shape)
    y = TOP + 16 * number
    _rule(svg, (WIDTH - RIGHT + 10, y), (WIDTH - RIGHT + 30, y), colour, "2")
    _text(svg, WIDTH - RIGHT + 35, y + 4, name, anchor="start")


def _rule(
    svg: ET.Element,
    begin: tuple[float, float],
    end: tuple[float, float],
    colour: str = "#ddd",
    width: str = "1",
) -> None:
    (x1, y1), (x2, y2) = begin, end
    ET.SubElement(
        svg, "line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}",
        stroke=colour, attrib={"stroke-width": width},
    )  # fmt: skip


def _text(svg: ET.Element, x: float, y: float, text: str, *, anchor: str) -> None:
    made = ET.SubElement(svg, "text", x=f"{x:.1f}", y=f"{y:.1f}", attrib={"text-anchor": anchor})
    made.text = text

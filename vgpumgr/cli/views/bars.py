"""One GPU's slots as a bar: ``[AAAABB....]``, GPU instances and mixed sizes where they lie."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.cli.terminal import style
from vgpumgr.model.placement import GpuSupply, Usage

WIDTH = 24
COLOURS = ("green", "cyan", "yellow", "blue", "magenta", "bright_green", "bright_cyan")

# What a cell shows besides a usage's number.
FREE, FOREIGN, EMPTY = -1, -2, -3


def bar(gpu: GpuSupply, width: int = WIDTH) -> str:
    """The GPU's slots scaled to at most ``width`` cells."""
    cells = _from_left(_cells(gpu))
    if gpu.units > width:
        cells = [cells[number * gpu.units // width] for number in range(width)]
    painted = "".join(map(_paint, cells))
    return f"[{painted}]" + " " * (width - len(cells))


def _cells(gpu: GpuSupply) -> list[int]:
    """Per slot what is there: those with a known place first, the rest in what is left."""
    cells = [FREE] * gpu.units
    for instance in gpu.instances:
        for slot in instance.slots:
            cells[slot] = EMPTY
    everything = list(enumerate(gpu.usages))
    for number, usage in sorted(everything, key=lambda each: not _places(gpu, each[1])):
        free = _free(cells, _places(gpu, usage))
        for slot, _ in zip(free, range(usage.units), strict=False):
            cells[slot] = FOREIGN if usage.foreign else number
    return cells


def _from_left(cells: list[int]) -> list[int]:
    """The same with usages numbered in the order in which they lie."""
    numbers: dict[int, int] = {}
    return [cell if cell < 0 else numbers.setdefault(cell, len(numbers)) for cell in cells]


def _places(gpu: GpuSupply, usage: Usage) -> tuple[int, ...]:
    """The slots it may lie in, where they are known: its GPU instance's, or its placement's."""
    if usage.start is None:
        return ()
    for instance in gpu.instances:
        if instance.start == usage.start:
            return instance.slots
    for offer in gpu.offers:
        if offer.profile == usage.profile and offer.instance is None:
            return next((place.slots for place in offer.starts if place.at == usage.start), ())
    return ()


def _free(cells: list[int], places: tuple[int, ...]) -> Iterator[int]:
    if places:
        return (slot for slot in places if slot < len(cells) and cells[slot] in {FREE, EMPTY})
    return (slot for slot, cell in enumerate(cells) if cell == FREE)


def _paint(cell: int) -> str:
    if cell == FREE:
        return "."
    if cell == EMPTY:
        return style("=", dim=True)
    if cell == FOREIGN:
        return style("#", fg="red")
    return style(chr(ord("A") + cell % 26), fg=COLOURS[cell % len(COLOURS)])

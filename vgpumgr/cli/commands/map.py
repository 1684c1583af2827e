"""The command `map`: the occupancy of every GPU as a bar of its slots, in colour at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from vgpumgr.cli import terminal
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.options import refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.terminal import style
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.host_looks import answers, look_item
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger_state import Freeze
from vgpumgr.model.supply import GpuSupply, HostSupply, Usage

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


# Where the terminal is too narrow what lives on a GPU goes below its model.
_BELOW = 16


@click.command("map")
@refresh_option
@output_option
@pass_context
def map_(context: Context, refresh: bool) -> None:
    """Draw every GPU's occupancy.

    A letter per VM, # for foreign use, = for an empty GPU instance, . for free.
    """
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    with refreshed(context, refresh):
        view = read_view(context.app.ledger)
        fleet = build_fleet(view)
        records = {host.name: host for host in view.hosts}
        items = [{**_host_item(host), **look_item(records[host.name])} for host in fleet.hosts]
        drawn = [line for host in fleet.hosts for line in _draw(host, records[host.name])]
        frozen = context.app.ledger.frozen()
        text = "\n".join([*_freeze_lines(frozen), *(drawn or ["no host is enrolled"])])
        item = {"name": "map", "frozen": _freeze_item(frozen), "items": items}
        print_item("Map", item, text)


def _freeze_lines(frozen: Freeze | None) -> Iterable[str]:
    if frozen is not None:
        since = f"{age(frozen.at)} ago"
        yield style(f"frozen {since}, nothing is allocated or started: {frozen.why}", fg="red")
        yield "  next: vgpumgr store thaw"


def _freeze_item(frozen: Freeze | None) -> dict[str, Any] | None:
    return {"why": frozen.why, "at": frozen.at} if frozen else None


def _host_item(host: HostSupply) -> dict[str, Any]:
    return {
        "host": host.name,
        "blocked": host.blocked,
        "gpus": [_gpu_item(gpu) for gpu in host.gpus],
    }


def _gpu_item(gpu: GpuSupply) -> dict[str, Any]:
    return {
        "id": gpu.id,
        "device": gpu.device,
        "model": gpu.model,
        "blocked": gpu.blocked,
        "units": gpu.units,
        "free": len(gpu.free_slots),
        "mixed_size": gpu.mixed_size,
        "free_vfs": len(gpu.free_vfs),
        "instances": [
            {"profile": i.profile, "start": i.start, "units": len(i.slots), "vgpus": i.vgpus}
            for i in gpu.instances
        ],
        "usages": [
            {
                "vm": u.vm,
                "foreign": u.foreign,
                "profile": u.profile,
                "units": u.units,
                "start": u.start,
            }
            for u in gpu.usages
        ],
    }


def _draw(host: HostSupply, record: HostRecord) -> Iterable[str]:
    note = f"  [{host.blocked}]" if host.blocked else ""
    look = look_item(record)
    seen = f"seen {age(record.observed_at)} ago" if record.observed_at else "never seen"
    if record.observed_at and not answers(look):
        seen = style(f"{look['stale_why']}, last {seen}: this may be outdated", fg="red")
    free = f"{host.free_vcpus} vCPUs, {host.free_memory_mib // 1024} GiB free"
    yield f"{style(host.name, bold=True)}  {free}, {seen}{note}"
    device = max((len(gpu.device) for gpu in host.gpus), default=0)
    model = max((len(gpu.model) for gpu in host.gpus), default=0)
    for gpu in host.gpus:
        used = gpu.units - len(gpu.free_slots)
        head = f"  {gpu.device:<{device}}  {gpu.model:<{model}}"
        drawn = f"{head}  {bar(gpu)}  {used:>3}/{gpu.units:<3} "
        yield terminal.hung(drawn, contents(gpu), _BELOW).rstrip()


def contents(gpu: GpuSupply) -> str:
    """``T4-4Q ×2``, the VM's name for a whole GPU, what is foreign, empty GPU instances, VFs."""
    counts: dict[str, int] = {}
    empty = (f"{each.profile} empty" for each in gpu.instances if not each.vgpus)
    usages = sorted(gpu.usages, key=lambda each: -1 if each.start is None else each.start)
    for label in (*map(_label, usages), *empty):
        counts[label] = counts.get(label, 0) + 1
    parts = [label if n == 1 else f"{label} ×{n}" for label, n in counts.items()]
    if any(offer.needs_vf for offer in gpu.offers):
        parts.append(f"{counted(len(gpu.free_vfs), 'VF')} free")
    if gpu.blocked:
        parts.append(gpu.blocked)
    return ", ".join(parts)


def _label(usage: Usage) -> str:
    if usage.foreign:
        return f"foreign {usage.profile}"
    if usage.profile == PASSTHROUGH_PROFILE:
        return f"whole → {usage.vm}"
    return usage.profile

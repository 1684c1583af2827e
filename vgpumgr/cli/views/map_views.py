"""The map as printed: a bar of slots per GPU, in colour at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vgpumgr.cli import terminal
from vgpumgr.cli.terminal import style
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints.fleet_map import FleetMap, GpuOnMap, SeenHostOnMap, UsageOnMap
from vgpumgr.endpoints.host_looks import answers
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE

WIDTH = 24
COLOURS = ("green", "cyan", "yellow", "blue", "magenta", "bright_green", "bright_cyan")
# Where the terminal is too narrow what lives on a GPU goes below its model.
_BELOW = 16


def map_text(item: FleetMap) -> str:
    """The map for people."""
    drawn = [line for host in item["items"] for line in _draw(host)]
    return "\n".join([*_freeze_lines(item), *(drawn or ["no host is enrolled"])])


def bar(cells: str, width: int = WIDTH) -> str:
    """The GPU's slots scaled to at most ``width`` cells."""
    count = len(cells)
    if count > width:
        cells = "".join(cells[number * count // width] for number in range(width))
    painted = "".join(map(_paint, cells))
    return f"[{painted}]" + " " * (width - len(cells))


def _paint(cell: str) -> str:
    match cell:
        case ".":
            return cell
        case "=":
            return style(cell, dim=True)
        case "#":
            return style(cell, fg="red")
        case _:
            return style(cell, fg=COLOURS[(ord(cell) - ord("A")) % len(COLOURS)])


def _freeze_lines(item: FleetMap) -> Iterable[str]:
    if (frozen := item["frozen"]) is not None:
        since = f"{age(frozen['at'])} ago"
        yield style(f"frozen {since}, nothing is allocated or started: {frozen['why']}", fg="red")
        yield "  next: vgpumgr store thaw"


def _draw(host: SeenHostOnMap) -> Iterator[str]:
    note = f"  [{host['blocked']}]" if host["blocked"] else ""
    at = host["observed_at"]
    seen = f"seen {age(at)} ago" if at else "never seen"
    if at and not answers(host):
        seen = style(f"{host['stale_why']}, last {seen}: this may be outdated", fg="red")
    free = f"{host['free_vcpus']} vCPUs, {host['free_memory_mib'] // 1024} GiB free"
    yield f"{style(host['host'], bold=True)}  {free}, {seen}{note}"
    device = max((len(gpu["device"]) for gpu in host["gpus"]), default=0)
    model = max((len(gpu["model"]) for gpu in host["gpus"]), default=0)
    for gpu in host["gpus"]:
        used = gpu["units"] - gpu["free"]
        head = f"  {gpu['device']:<{device}}  {gpu['model']:<{model}}"
        drawn = f"{head}  {bar(gpu['cells'])}  {used:>3}/{gpu['units']:<3} "
        yield terminal.hung(drawn, contents(gpu), _BELOW).rstrip()


def contents(gpu: GpuOnMap) -> str:
    """``T4-4Q ×2``, the VM's name for a whole GPU, what is foreign, empty GPU instances, VFs."""
    counts: dict[str, int] = {}
    empty = (f"{each['profile']} empty" for each in gpu["instances"] if not each["vgpus"])
    usages = sorted(gpu["usages"], key=lambda each: -1 if each["start"] is None else each["start"])
    for label in (*map(_label, usages), *empty):
        counts[label] = counts.get(label, 0) + 1
    parts = [label if n == 1 else f"{label} ×{n}" for label, n in counts.items()]
    if gpu["takes_vfs"]:
        parts.append(f"{counted(gpu['free_vfs'], 'VF')} free")
    if gpu["blocked"]:
        parts.append(gpu["blocked"])
    return ", ".join(parts)


def _label(usage: UsageOnMap) -> str:
    if usage["foreign"]:
        return f"foreign {usage['profile']}"
    if usage["profile"] == PASSTHROUGH_PROFILE:
        return f"whole → {usage['vm']}"
    return usage["profile"]

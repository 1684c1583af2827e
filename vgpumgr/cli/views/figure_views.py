"""What GPUs and VMs measure, as printed: a line in `show`, and the table of `top`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import table
from vgpumgr.cli.terminal import has_blocks
from vgpumgr.cli.views.ages import age
from vgpumgr.model.formats import counted, spanned

if TYPE_CHECKING:
    from vgpumgr.endpoints.figure_items import GpuNow, Hour, PartNow, TopGpu, TopPart
    from vgpumgr.endpoints.pool_items import PoolNow
    from vgpumgr.endpoints.top import TopAnswer

_GIB = 1 << 30
_HOUR = "LAST HOUR"
_TITLES = ("HOST", "GPU", "MODEL", "VM", "PROFILE", "BUSY", "MEMORY", "TEMP", "POWER", "NOTES")
# Low to high; what was not told is a blank in either.
_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_SHOW_COLUMNS, _TOP_COLUMNS = 30, 12
# A GPU that keeps in step with others is no worse for it.
_IGNORED = frozenset({"sync_boost"})


def share_text(share: float | None) -> str:
    """``37 %``; empty where it is not known."""
    return "" if share is None else f"{share:.0%}".replace("%", " %")


def memory_text(used: int | None, total: int | None) -> str:
    """``4.2 of 16 GiB``; empty where neither is known."""
    if total is None:
        return ""
    return f"{'?' if used is None else _gib(used)} of {_gib(total)} GiB"


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f}".removesuffix(".0")


def sparkline(hour: Hour, columns: int) -> str:
    """A character for each part of the hour, of which the busiest minute counts."""
    marks = _BLOCKS if has_blocks() else _ASCII
    wide = -(-len(hour) // columns)
    parts = (hour[at : at + wide] for at in range(0, len(hour), wide or 1))
    told = (max((each for each in part if each is not None), default=None) for part in parts)
    return "".join(" " if one is None else marks[min(7, int(one * 8))] for one in told)


def hour_text(hour: Hour) -> str:
    """``▁▁▃▅█▂  4 to 87 % busy``; empty where nothing of the hour is known."""
    told = [each for each in hour if each is not None]
    if not told:
        return ""
    return f"{sparkline(hour, _SHOW_COLUMNS)}  {range_text(told)} busy"


def range_text(told: Sequence[float]) -> str:
    """``4 to 87 %``."""
    least, most = share_text(min(told)), share_text(max(told))
    return most if least == most else f"{least.removesuffix(' %')} to {most}"


def gpu_now_text(now: GpuNow | None) -> str:
    """``37 % busy, 4 of 16 GiB in use, 61 °C, 120 W of 300 W (12s ago)``."""
    if now is None:
        return ""
    if now["given_away"]:
        return f"a guest has it: nothing is measured here ({age(now['at'])} ago)"
    memory = memory_text(now["memory_used_bytes"], now["memory_total_bytes"])
    words = [
        f"{share_text(now['utilization'])} busy" if now["utilization"] is not None else "",
        f"{memory} in use" if memory else "",
        _temperature(now),
        power_text(now),
        *notes_of(now),
    ]
    said = ", ".join(filter(None, words)) or "it tells nothing"
    return f"{said} ({age(now['at'])} ago)"


def part_now_text(now: PartNow | None) -> str:
    """``37 % of the GPU, 1 of 4 GiB in use``."""
    if now is None:
        return ""
    memory = memory_text(now["memory_used_bytes"], now["memory_total_bytes"])
    share = now["utilization"]
    words = [
        "" if share is None else f"{share_text(share)} of the GPU",
        f"{memory} in use" if memory else "",
        *part_notes(now),
    ]
    return ", ".join(filter(None, words))


def pool_now_text(now: PoolNow | None) -> str:
    """``12 desktops at work: 8 % of a GPU each, most vdi-07; 20 of 48 GiB in use``."""
    if now is None:
        return ""
    memory = memory_text(now["memory_used_bytes"], now["memory_total_bytes"])
    share = share_text(now["utilization"])
    busy = f"{share} of a GPU each, most {now['busiest']}" if share else "shares are not told"
    found = f"{counted(now['measured'], 'desktop')} measured: {busy}; {memory} in use"
    unlicensed = now["unlicensed"]
    return f"{found}; not licensed: {spanned(unlicensed)}" if unlicensed else found


def power_text(now: Mapping[str, Any]) -> str:
    """``120 W of 300 W``."""
    if now["power_w"] is None:
        return ""
    limit = now["power_limit_w"]
    return f"{now['power_w']:.0f} W" + ("" if limit is None else f" of {limit:.0f} W")


def _temperature(now: Mapping[str, Any]) -> str:
    return "" if now["temperature_c"] is None else f"{now['temperature_c']} °C"


def notes_of(now: GpuNow) -> Iterator[str]:
    """What is out of the ordinary: clocks held down, what the driver asks for, Xids."""
    held = [each for each in now["throttled"] if each not in _IGNORED]
    if held:
        yield f"throttled: {', '.join(each.replace('_', ' ') for each in held)}"
    if now["recovery_action"]:
        yield f"recovery action {now['recovery_action']}"
    seen = [f"{code} ({count})" for code, count in (now["xids"] or {}).items() if count]
    if seen:
        yield f"Xid {', '.join(seen)}"


def part_notes(now: PartNow) -> Iterator[str]:
    """A guest without a licence, frames that are captured, sessions of the encoder."""
    if now["licensed"] is False:
        yield "not licensed"
    if now["encoder_sessions"]:
        yield counted(now["encoder_sessions"], "encoder session")
    if now["frames_per_second"]:
        yield f"{now['frames_per_second']} fps"


def top_text(answer: TopAnswer, most: int | None = None) -> str:
    """GPUs, the busiest first, each with its VMs; at most ``most`` lines of the table."""
    gpus = sorted(answer["items"], key=_busiest_first)
    hours = any(gpu["hour"] for gpu in gpus)
    rows = [row for gpu in gpus for row in _rows(gpu, hours=hours)]
    shown = rows if most is None else rows[: max(0, most - 1)]
    titles = [*_TITLES[:6], _HOUR, *_TITLES[6:]] if hours else [*_TITLES]
    lines = table([titles, *shown]) if shown else "no GPU"
    silent = [f"{each['host']} is silent: {each['why']}" for each in answer["silent"]]
    return "\n".join([head_text(answer), *silent, "", lines])


def head_text(answer: TopAnswer) -> str:
    """``12 GPUs, 31 % busy, 2.4 kW, 40 vGPUs at work; measured 3s ago``."""
    gpus = answer["items"]
    shares = [each["utilization"] for each in gpus if each["utilization"] is not None]
    watts = sum(each["power_w"] or 0.0 for each in gpus)
    working = sum(part["utilization"] is not None for each in gpus for part in each["parts"])
    words = [counted(len(gpus), "GPU")]
    words += [f"{share_text(sum(shares) / len(shares))} busy"] if shares else []
    words += [f"{watts / 1000:.1f} kW" if watts >= 1000 else f"{watts:.0f} W"] if watts else []
    words += [f"{counted(working, 'vGPU')} at work"] if working else []
    at = answer["at"]
    return ", ".join(words) + ("" if at is None else f"; measured {age(at)} ago")


def _busiest_first(gpu: TopGpu) -> tuple[float, str, int]:
    share = gpu["utilization"]
    parts = sum(part["utilization"] or 0.0 for part in gpu["parts"])
    return -(share if share is not None else parts), gpu["host"], gpu["number"]


def _rows(gpu: TopGpu, *, hours: bool) -> Iterator[Sequence[str]]:
    """Of a GPU and of its parts; the last hour in the seventh column, where any has one."""
    first, *parts = _plain_rows(gpu)
    if not hours:
        yield from (first, *parts)
        return
    for row, hour in (
        (first, sparkline(gpu["hour"], _TOP_COLUMNS)),
        *((each, "") for each in parts),
    ):
        yield [*row[:6], hour, *row[6:]]


def _plain_rows(gpu: TopGpu) -> Iterator[Sequence[str]]:
    notes = [*notes_of(gpu)]
    if gpu["health"] != "healthy":
        notes.insert(0, gpu["health"])
    if gpu["given_away"]:
        notes.insert(0, "a guest has it")
    yield [
        gpu["host"],
        str(gpu["number"]),
        gpu["model"],
        "",
        "",
        share_text(gpu["utilization"]),
        memory_text(gpu["memory_used_bytes"], gpu["memory_total_bytes"]),
        _temperature(gpu),
        power_text(gpu),
        ", ".join(notes),
    ]
    for part in sorted(gpu["parts"], key=lambda each: (-(each["utilization"] or 0.0), each["vm"])):
        yield _part_row(part)


def _part_row(part: TopPart) -> Sequence[str]:
    used, total = part["memory_used_bytes"], part["memory_total_bytes"]
    name = part["vm"] or f"foreign {part['device']}"
    busy, memory = share_text(part["utilization"]), memory_text(used, total)
    return ["", "", "", name, part["profile"], busy, memory, "", "", ", ".join(part_notes(part))]

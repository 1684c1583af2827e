"""Answers as HTML: the templates, and how values look in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import groupby
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from vgpumgr import __version__
from vgpumgr.endpoints.plan_items import reasons_of
from vgpumgr.model.formats import counted
from vgpumgr.model.placement import ReasonGroup, by_board
from vgpumgr.web import static_files
from vgpumgr.web.charts import sparkline
from vgpumgr.web.form_fields import typed_text
from vgpumgr.web.next_steps import next_steps

CELL, GAP, HEIGHT = 10, 1, 16
"""Width of a slot, the gap between two uses, and the height, in pixels."""
_KINDS = {".": "free", "=": "instance", "#": "foreign"}
_BOXES = frozenset({"used", "foreign"})
WIDEST = 320
"""GPUs with very many slots are drawn with narrower ones."""


@dataclass(frozen=True, slots=True)
class SlotPath:
    """The slots of one ``kind`` (``used``, ``foreign``, ``instance``, ``free``) as path data. Those
    that hold nothing are one stroke with a gap after each, ``dashes``; a use is a box.
    """

    kind: str
    data: str
    dashes: str = ""


@lru_cache(maxsize=65536)
def slot_paths(cells: str) -> tuple[SlotPath, ...]:
    """The paths of a GPU whose slots are so, a sign each, as the map's answer has them."""
    found: dict[str, list[str]] = {}
    width, at = cell_width(len(cells)), 0.0
    gap = min(GAP, width / 4)
    for sign, run in groupby(cells):
        kind, long = _KINDS.get(sign, "used"), len(list(run)) * width
        box = f"M{at:g} 0h{long - gap:g}v{HEIGHT}h{gap - long:g}z"
        found.setdefault(kind, []).append(
            box if kind in _BOXES else f"M{at:g} {HEIGHT / 2:g}h{long - gap:g}"
        )
        at = round(at + long, 3)
    dashes = f"{width - gap:g} {gap:g}"
    return tuple(
        SlotPath(kind, "".join(paths), "" if kind in _BOXES else dashes)
        for kind, paths in found.items()
    )


def cell_width(slots: int) -> float:
    """How wide a slot is drawn."""
    return min(CELL, round(WIDEST / max(slots, 1), 2))


def drawn_width(cells: str) -> float:
    """How wide the GPU is drawn."""
    return round(len(cells) * cell_width(len(cells)), 2)


_NAMED = 2


def reason_lines(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """``gpu-host-1, 4 GPUs: …``, the nearest to a yes first."""
    return [_line(each) for each in by_board(reasons_of(items))]


def _line(group: ReasonGroup) -> str:
    hosts = [each for each in group.hosts if each]
    where = ", ".join(hosts) if len(hosts) <= _NAMED else counted(len(hosts), "host")
    devices = [each.device for each in group.reasons if each.device]
    which = counted(len(devices), "GPU") if len(devices) > 1 else "".join(devices)
    place = ", ".join(filter(None, [where, which]))
    return f"{place}: {group.text.removeprefix(f'{place}: ')}" if place else group.text


_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template with these values; whatever they hold is text, never markup."""
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """The templates of the pages."""
    made = Environment(
        loader=PackageLoader("vgpumgr.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"static": static_files.address, "version": __version__}
    made.filters |= {
        "counted": counted,
        "duration": duration,
        "gib": gib,
        "lasting": lasting,
        "moment": moment,
        "drawn_width": drawn_width,
        "steps": next_steps,
        "part": lambda text: quote(str(text), safe=""),
        "reason_lines": reason_lines,
        "slot_paths": slot_paths,
        "sparkline": sparkline,
        "spoken": spoken,
        "typed": typed_text,
    }
    return made


def gib(mib: float) -> str:
    """Mebibytes as people read them."""
    if mib < 1024:
        return f"{mib:g} MiB"
    return f"{mib / 1024:.4g} GiB"


def duration(seconds: float) -> str:
    """A span as people read it: ``40 s``, ``12 min``, ``5 h``, ``3 days``."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    if seconds < 2 * _DAY_S:
        return f"{seconds / _HOUR_S:.0f} h"
    return f"{seconds / _DAY_S:.0f} days"


def lasting(days: Mapping[str, int | None]) -> str:
    """A forecast as people read it: as likely as not, and nine times in ten."""
    likely, safe = (_days(days[key]) for key in ("days_50", "days_90"))
    return likely if likely == safe else f"{safe}, likely {likely}"


def _days(number: int | None) -> str:
    return "more than a year" if number is None else counted(number, "day")


def moment(text: str | None) -> str:
    """A time of an answer as it is shown where no script makes it local: UTC."""
    if not text:
        return ""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def spoken(gpu: Mapping[str, Any]) -> str:
    """A GPU on the map in words: ``A40 gpu-1234: 3 of 8 slots free; desk-1 (A40-8Q)``."""
    uses = [
        f"{each['vm'] or each['foreign']} ({each['profile']})"
        for each in gpu["usages"]
        if each["vm"] or each["foreign"]
    ]
    said = f"{gpu['model']} {gpu['id']}: {gpu['free']} of {counted(gpu['units'], 'slot')} free"
    blocked = f"; {gpu['blocked']}" if gpu["blocked"] else ""
    return f"{said}{blocked}" + (f"; {', '.join(uses)}" if uses else "")

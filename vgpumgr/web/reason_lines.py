"""Reasons of a refusal for people: one line for all GPUs or hosts that say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vgpumgr.endpoints.plan_items import reasons_of
from vgpumgr.model.formats import counted
from vgpumgr.model.placement import ReasonGroup, by_board

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
    return f"{place}: {group.text}" if place else group.text

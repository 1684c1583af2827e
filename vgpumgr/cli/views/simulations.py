"""What a simulation found, for people and for programs."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import table
from vgpumgr.cli.views.plans import reason_items, reason_lines
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.words import counted, spanned

if TYPE_CHECKING:
    from vgpumgr.engine.whatif.simulate import Fate, Simulation

_REASONS = 4
_NUMBER = re.compile(r"( #|-)\d+$")


def simulation_item(found: Simulation) -> dict[str, Any]:
    """The JSON of a simulation."""
    return {
        "name": "simulation",
        "vms": [_fate(fate) for fate in found.fates],
        "kept": [{"vm": vm.name, "was_on": vm.host, "why": why} for vm, why in found.kept],
        "added": [{"host": host, "layout": text} for host, text in found.added],
        "removed": [{"vm": vm.name, "was_on": vm.host} for vm in found.removed],
        "homeless": found.homeless,
    }


def _fate(fate: Fate) -> dict[str, Any]:
    decision = fate.decision
    placed = decision if isinstance(decision, Placed) else None
    reasons = decision.reasons if isinstance(decision, NotPlaced) else ()
    parts = placed.assignments if placed else ()
    return {
        "vm": decision.request.name,
        "was_on": fate.was_on or None,
        "host": placed and placed.host,
        "parts": [{"profile": each.offer.profile, "device": each.device} for each in parts],
        "reasons": reason_items(reasons),
    }


def simulation_text(found: Simulation) -> str:
    """Alike VMs in one row: what they are, whence, whither; then why some have no place."""
    item = simulation_item(found)
    lines = [f"new host {each['host']}: {each['layout']}" for each in item["added"]]
    lines += [f"gone: {each['vm']} from {each['was_on']}" for each in item["removed"]]
    rows = [
        [f"  {_names(vms)}", was or "new", _hosts(vms)]
        for (_, was), alike in groupby(item["vms"], key=lambda vm: (_stem(vm), vm["was_on"]))
        for vms in (list(alike),)
    ]
    lines += [table([["  VM", "FROM", "TO"], *rows])] if rows else []
    lines += [f"  {each['vm']}: stays on {each['was_on']}: {each['why']}" for each in item["kept"]]
    refused = [each.decision for each in found.fates if isinstance(each.decision, NotPlaced)]
    for reasons, alike in groupby(refused, key=lambda each: each.reasons):
        first, *more = list(alike)
        others = f" and {len(more)} more" if more else ""
        lines.append(f"  no place for {first.request.name}{others}")
        lines += reason_lines(reasons, _REASONS, "    ")
    placed = len(item["vms"]) - sum(vm["host"] is None for vm in item["vms"])
    return "\n".join(
        [*lines, f"{counted(placed, 'VM')} would be placed, {item['homeless']} would not"]
    )


def _stem(vm: dict[str, Any]) -> str:
    """Replicas are told together, as are those of ``--add``."""
    return _NUMBER.sub("", str(vm["vm"]))


def _names(vms: list[dict[str, Any]]) -> str:
    names = [str(vm["vm"]) for vm in vms]
    return _stem(vms[0]) if " #" in names[0] else spanned(names)


def _hosts(vms: list[dict[str, Any]]) -> str:
    """``a40-01 ×4, nowhere ×2``; a lone VM without its count."""
    counts = Counter(vm["host"] or "nowhere" for vm in vms)
    if len(vms) == 1:
        return str(vms[0]["host"] or "nowhere")
    return ", ".join(f"{host} ×{count}" for host, count in counts.items())

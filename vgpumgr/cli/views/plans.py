"""Plans and reasons, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from vgpumgr.cli.output import table
from vgpumgr.cli.views.folding import folded
from vgpumgr.model.placement import FAR_REASONS, Reason
from vgpumgr.model.plan import Action, Plan, QueuedVm
from vgpumgr.model.words import counted


def reason_item(reason: Reason) -> dict[str, Any]:
    """The JSON of a reason."""
    return {
        "code": reason.code,
        "host": reason.host,
        "gpu": reason.gpu,
        "device": reason.device,
        "model": reason.model,
        "text": reason.text,
        "facts": dict(reason.facts),
    }


def reason_rows(reasons: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Host, device, sentence, those nearest to a yes first; what is said of several GPUs of a host
    is said once.
    """
    rows = []
    near_first = sorted(reasons, key=lambda each: each["code"] in FAR_REASONS)
    for (host, text), group in groupby(near_first, key=lambda each: (each["host"], _said(each))):
        same = list(group)
        devices = [each["device"] for each in same if each["device"]]
        if len(devices) > 1:
            rows.append([f"  {host}", counted(len(devices), "GPU"), text])
        else:
            rows.append([f"  {host}", "".join(devices) or "-", same[0]["text"]])
    return rows


def _said(reason: dict[str, Any]) -> str:
    """The sentence without the GPU's address."""
    device = reason["device"]
    return str(reason["text"]).replace(f" {device}", "") if device else str(reason["text"])


def plan_item(plan: Plan) -> dict[str, Any]:
    """The JSON of a plan."""
    return {
        "name": "plan",
        "changes": plan.changes,
        "actions": [
            {
                "kind": str(action.kind),
                "vm": action.vm.name,
                "host": action.host,
                "details": list(action.details),
                "needs_restart": action.needs_restart,
            }
            for action in plan.actions
        ],
        "unplaced": [
            {
                "vm": refused.request.name,
                "reasons": [reason_item(reason) for reason in refused.reasons],
            }
            for refused in plan.unplaced
        ],
        "waiting": [
            {"vm": each.vm.name, "position": each.position, "why": each.why, "new": each.new}
            for each in plan.waiting
        ],
        "unchanged": list(plan.unchanged),
        "warnings": list(plan.warnings),
        "notes": list(plan.notes),
    }


def plan_text(plan: Plan) -> str:
    """A plan for people."""
    if not plan.changes and not plan.unplaced and not plan.waiting:
        verb = "is" if len(plan.unchanged) == 1 else "are"
        return f"nothing to change: {counted(len(plan.unchanged), 'VM')} {verb} as wanted"
    rows = [[f"  {a.kind}", a.vm.name, a.host, _details(a)] for a in plan.actions]
    lines = [table(folded(rows, column=1))] if rows else []
    for reasons, alike in groupby(plan.unplaced, key=lambda refused: refused.reasons):
        names = [refused.request.name for refused in alike]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"  cannot be placed: {names[0]}{more}")
        lines += _reason_lines(reasons)
    lines += [f"  waits  {_waiting(each)}" for each in plan.waiting]
    waiting = f"{len(plan.waiting)} in the queue, " if plan.waiting else ""
    lines.append(
        f"{len(plan.actions)} to change, {len(plan.unplaced)} cannot be placed, {waiting}"
        f"{len(plan.unchanged)} as wanted"
    )
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines)


def _waiting(each: QueuedVm) -> str:
    why = f": {each.why}" if each.why else ""
    return f"{each.vm.name}  position {each.position}{why}"


def _details(action: Action) -> str:
    stop = ("needs a stop: apply --restart",) if action.needs_restart else ()
    return "; ".join((*action.details, *stop))


def _reason_lines(reasons: Sequence[Reason], most: int = 8) -> list[str]:
    rows = reason_rows([reason_item(reason) for reason in reasons])
    lines = table([[f"    {host}", where, text] for host, where, text in rows[:most]]).splitlines()
    return lines if len(rows) <= most else [*lines, f"      and {len(rows) - most} more"]

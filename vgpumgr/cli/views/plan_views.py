"""Plans and reasons as printed, and the replicas that a file no longer names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import say, table
from vgpumgr.model.apply_plan import Action, Plan, QueuedVm
from vgpumgr.model.formats import counted, spanned
from vgpumgr.model.placement import Reason, ReasonGroup, by_board, nearest_first, sentence

if TYPE_CHECKING:
    from vgpumgr.cli.command_context import Context
    from vgpumgr.model.vm import VmSpec


# Two alike are still read at a glance.
_FEWEST = 3


def folded(rows: Sequence[Sequence[str]], column: int = 0) -> list[list[str]]:
    """``rows`` with neighbours that differ in ``column`` alone made one."""
    found: list[list[str]] = []
    for _, group in groupby(rows, key=lambda row: (*row[:column], *row[column + 1 :])):
        alike = [list(row) for row in group]
        if len(alike) >= _FEWEST:
            names = spanned([row[column] for row in alike])
            alike = [[*alike[0][:column], names, *alike[0][column + 1 :]]]
        found += alike
    return found


# Of a VM that cannot be placed so many kinds of reasons are shown, and so many hosts are named.
_REASONS, _NAMED = 8, 2


def reason_items(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """The JSON of reasons, the nearest to a yes first."""
    return [_reason(each) for each in nearest_first(reasons)]


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "code": reason.code,
        "host": reason.host,
        "gpu": reason.gpu,
        "device": reason.device,
        "model": reason.model,
        "text": reason.text,
        "facts": dict(reason.facts),
    }


def reason_rows(reasons: Iterable[Reason]) -> list[list[str]]:
    """Host, device and sentence, those nearest to a yes first: a row for all that say the same."""
    rows = []
    for group in by_board(reasons):
        said: dict[str, list[Reason]] = {}
        for each in group.reasons:
            said.setdefault(sentence(each), []).append(each)
        rows += [_row(ReasonGroup(tuple(same))) for same in said.values()]
    return rows


def reason_lines(reasons: Iterable[Reason], most: int, indent: str) -> list[str]:
    """The same for a few lines: one per rule and board model, with the numbers of the nearest."""
    groups = by_board(reasons)
    rows = [_row(group) for group in groups[:most]]
    lines = table([[f"{indent}{where}", *rest] for where, *rest in rows]).splitlines()
    hidden = sum(len(group.reasons) for group in groups[most:])
    return [*lines, f"{indent}and {hidden} more GPUs or hosts"] if hidden else lines


def _row(group: ReasonGroup) -> list[str]:
    """Where, which GPUs, what. Of those that differ in numbers the nearest is named."""
    shown = group.reasons if group.alike else group.reasons[:1]
    hosts = list(dict.fromkeys(each.host for each in shown if each.host))
    where = ", ".join(hosts) if len(hosts) <= _NAMED else counted(len(hosts), "host")
    devices = [each.device for each in shown if each.device]
    which = counted(len(devices), "GPU") if len(devices) > 1 else "".join(devices)
    return [where or "-", which or "-", group.text]


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
                "replace": action.replace,
            }
            for action in plan.actions
        ],
        "unplaced": [
            {
                "vm": refused.request.name,
                "reasons": reason_items(refused.reasons),
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


def plan_text(plan: Plan, *, partial: bool = False, file: str = "") -> str:
    """A plan for people. ``file`` is what `apply` would be given, ``partial`` whether it may make
    what fits though some do not.
    """
    if not plan.changes and not plan.unplaced and not plan.waiting:
        return f"nothing to change: {counted(len(plan.unchanged), 'VM')} converged"
    rows = [[f"  {_verb(a)}", a.vm.name, a.host, _details(a)] for a in plan.actions]
    lines = [table(folded(rows, column=1))] if rows else []
    for reasons, alike in groupby(plan.unplaced, key=lambda refused: refused.reasons):
        names = [refused.request.name for refused in alike]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"  cannot be placed: {names[0]}{more}")
        lines += reason_lines(reasons, _REASONS, "      ")
    lines += [f"  waits  {_waiting(each)}" for each in plan.waiting]
    waiting = f"{len(plan.waiting)} in the queue, " if plan.waiting else ""
    replaced = plan.replaced
    anew = f"{len(replaced)} need a new VM, " if replaced else ""
    lines.append(
        f"{len(plan.actions) - len(replaced)} to change, {anew}"
        f"{len(plan.unplaced)} cannot be placed, {waiting}"
        f"{len(plan.unchanged)} converged"
    )
    lines += [f"note: {note}" for note in plan.notes]
    lines += _refusals(plan, shlex.quote(file), partial=partial) if file else ()
    return "\n".join(lines)


def _refusals(plan: Plan, file: str, *, partial: bool, most: int = 3) -> Iterator[str]:
    """Why ``apply`` would change nothing as it is, and what to type instead."""
    replaced = plan.replaced
    if replaced:
        yield f"apply refuses this file: {replaced[0].vm.name} cannot be changed in place"
        for each in replaced[:most]:
            yield f"  next: {each.replace.replace('-f FILE', f'-f {file}')}"
        if len(replaced) > most:
            yield f"  and likewise for {len(replaced) - most} more"
    elif plan.unplaced and not partial:
        fit = len(plan.actions)
        instead = (
            f"; to create the {fit} that fit: vgpumgr apply -f {file} --partial" if fit else ""
        )
        yield f"apply refuses this file, all or nothing{instead}"


def _verb(action: Action) -> str:
    return "replace" if action.replace else str(action.kind)


def _waiting(each: QueuedVm) -> str:
    why = f": {each.why}" if each.why else ""
    return f"{each.vm.name}  position {each.position}{why}"


def _details(action: Action) -> str:
    stop = ("needs a stop: apply --restart",) if action.needs_restart else ()
    return "; ".join((*action.details, *stop))


# As ``replicas`` numbers them: at least two digits.
_REPLICA = re.compile(r"(.+)-(\d{2,})")
MOST_NAMED = 10


def say_surplus(context: Context, desired: Iterable[VmSpec]) -> None:
    """Name the VMs that were replicas of the file's VMs once, and how to delete them."""
    left = surplus([spec.name for spec in desired], [vm.name for vm in context.app.ledger.vms()])
    if left:
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        shown = left[:MOST_NAMED]
        say(f"not in the file, left alone: {', '.join(shown)}{more}")
        say(f"  next: vgpumgr vm delete {' '.join(shown)}   (a running one needs --force)")


def surplus(desired: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Existing ``name-NN`` beyond the highest number that is desired of the same name."""
    highest: dict[str, int] = {}
    for name in desired:
        if found := _REPLICA.fullmatch(name):
            highest[found[1]] = max(highest.get(found[1], 0), int(found[2]))
    return sorted(
        name
        for name in existing
        if (found := _REPLICA.fullmatch(name))
        and int(found[2]) > highest.get(found[1], int(found[2]))
    )

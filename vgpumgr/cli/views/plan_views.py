"""Plans and reasons as printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from vgpumgr.cli.output import table
from vgpumgr.endpoints.plan_items import ActionItem, PlanItem, WaitingItem, reasons_of
from vgpumgr.model.formats import counted, spanned
from vgpumgr.model.placement import Reason, ReasonGroup, by_board, sentence

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


def plan_text(plan: PlanItem, *, partial: bool = False, file: str = "", prune: bool = False) -> str:
    """A plan for people. ``file`` is what `apply` would be given, ``partial`` whether it may make
    what fits though some do not, ``prune`` whether it deletes what is surplus.
    """
    unchanged = len(plan["unchanged"])
    surplus = surplus_lines(plan, shlex.quote(file), prune=prune) if file else []
    if not plan["changes"] and not plan["unplaced"] and not plan["waiting"] and not prune:
        return "\n".join([f"nothing to change: {counted(unchanged, 'VM')} converged", *surplus])
    rows = [[f"  {_verb(a)}", a["vm"], a["host"], _details(a)] for a in plan["actions"]]
    if prune:
        rows = [*_deletions(plan), *rows]
    lines = [table(folded(rows, column=1))] if rows else []
    for reasons, alike in groupby(plan["unplaced"], key=lambda refused: refused["reasons"]):
        names = [refused["vm"] for refused in alike]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"  cannot be placed: {names[0]}{more}")
        lines += reason_lines(reasons_of(reasons), _REASONS, "      ")
    lines += [f"  waits  {_waiting(each)}" for each in plan["waiting"]]
    waiting = f"{len(plan['waiting'])} in the queue, " if plan["waiting"] else ""
    replaced = _replaced(plan)
    anew = f"{len(replaced)} need a new VM, " if replaced else ""
    gone = f"{len(pruned(plan))} to delete, " if prune else ""
    lines.append(
        f"{gone}{len(plan['actions']) - len(replaced)} to change, {anew}"
        f"{len(plan['unplaced'])} cannot be placed, {waiting}"
        f"{unchanged} converged"
    )
    lines += wave_lines(plan["actions"])
    lines += [f"note: {note}" for note in plan["notes"]]
    lines += surplus
    lines += _refusals(plan, shlex.quote(file), partial=partial) if file else ()
    return "\n".join(lines)


def pruned(plan: PlanItem) -> list[str]:
    """The VMs that `apply --prune` deletes."""
    return [each["vm"] for each in plan.get("surplus", []) if each["replica"]]


def _deletions(plan: PlanItem) -> list[list[str]]:
    """A row for each VM that is deleted."""
    found = [each for each in plan.get("surplus", []) if each["replica"]]
    return [["  delete", e["vm"], e["host"], "runs" if e["runs"] else "off"] for e in found]


def surplus_lines(plan: PlanItem, file: str, *, prune: bool) -> list[str]:
    """The VMs that the file has no longer and that are left alone."""
    lines, names = [], [] if prune else pruned(plan)
    if names:
        lines.append(f"not in the file, left alone: {spanned(names)}")
        lines.append(f"  next: vgpumgr apply -f {file} --prune   (deletes them with their disks)")
    others = [each["vm"] for each in plan.get("surplus", []) if not each["replica"]]
    if others:
        lines.append(f"not in the file, and no replica of it as it is: {spanned(others)}")
    return lines


def wave_lines(actions: Iterable[ActionItem]) -> list[str]:
    """The waves of a rolling change, a line each."""
    waves: dict[int, list[str]] = {}
    for each in actions:
        if each["wave"]:
            waves.setdefault(each["wave"], []).append(each["vm"])
    return [f"  wave {n} of {len(waves)}: {spanned(waves[n], 5)}" for n in sorted(waves)]


def _replaced(plan: PlanItem) -> list[ActionItem]:
    """The changes that need a new VM: while there is one, ``apply`` changes nothing."""
    return [action for action in plan["actions"] if action["replace"]]


def _refusals(plan: PlanItem, file: str, *, partial: bool, most: int = 3) -> Iterator[str]:
    """Why ``apply`` would change nothing as it is, and what to type instead."""
    replaced = _replaced(plan)
    if replaced:
        yield f"apply refuses this file: {replaced[0]['vm']} cannot be changed in place"
        for each in replaced[:most]:
            yield f"  next: {each['replace'].replace('-f FILE', f'-f {file}')}"
        if len(replaced) > most:
            yield f"  and likewise for {len(replaced) - most} more"
    elif plan["unplaced"] and not partial:
        fit = len(plan["actions"])
        instead = (
            f"; to create the {fit} that fit: vgpumgr apply -f {file} --partial" if fit else ""
        )
        yield f"apply refuses this file, all or nothing{instead}"


def _verb(action: ActionItem) -> str:
    return "replace" if action["replace"] else action["kind"]


def _waiting(each: WaitingItem) -> str:
    why = f": {each['why']}" if each["why"] else ""
    return f"{each['vm']}  position {each['position']}{why}"


def _details(action: ActionItem) -> str:
    stop = ["needs a stop: apply --restart"] if action["needs_restart"] else []
    return "; ".join([*action["details"], *stop])

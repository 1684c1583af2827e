"""Plans of files with documents of all kinds, as printed, and what is asked before all that."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.cli.output import table
from vgpumgr.cli.views.layout_views import layout_plan_text, to_change
from vgpumgr.cli.views.plan_views import plan_text, pruned
from vgpumgr.cli.views.pool_views import pool_change_text
from vgpumgr.endpoints.file_plans import FilePlan
from vgpumgr.endpoints.flavours import FlavourChanges
from vgpumgr.endpoints.power_budgets import PowerBudgetChanges
from vgpumgr.model.formats import counted, spanned


def file_plan_text(plan: FilePlan, *, file: str, partial: bool = False, prune: bool = False) -> str:
    """Hosts, layouts, VMs and pools, in the order in which they are worked."""
    return "\n".join(_parts(plan, file, partial=partial, prune=prune))


def _parts(plan: FilePlan, file: str, *, partial: bool, prune: bool) -> Iterator[str]:
    if plan["new_hosts"]:
        rows = [
            ["  enrol", each["name"], each["address"], each["key"] or each["problem"]]
            for each in plan["new_hosts"]
        ]
        yield table(rows)
    if plan["later"]:
        they = "it is" if len(plan["new_hosts"]) == 1 else "they are"
        yield f"planned once {they} enrolled: {', '.join(plan['later'])}"
    if plan.get("layouts"):
        yield layout_plan_text(plan["layouts"])
    if plan.get("flavours"):
        yield flavour_change_text(plan["flavours"])
    if plan.get("budgets"):
        yield budget_change_text(plan["budgets"])
    if _has_vms(plan):
        yield plan_text(plan, file=file, partial=partial, prune=prune)
    if plan.get("pools"):
        yield pool_change_text(plan["pools"])


def flavour_change_text(changes: FlavourChanges) -> str:
    """A line for each flavour and each change of it."""
    lines = []
    for each in changes["flavours"]:
        verb = "create" if each["new"] else "change" if each["changes"] else "unchanged"
        lines.append(f"{verb}  flavour {each['name']}")
        if not each["new"]:
            lines += [f"  {change}" for change in each["changes"]]
        if each["changes"] and each["used"]:
            lines.append(f"  {each['used']} have it, and change when their files are applied again")
    return "\n".join(lines)


def budget_change_text(changes: PowerBudgetChanges) -> str:
    """A line for each power budget and each change of it."""
    lines = []
    for each in changes["budgets"]:
        verb = "create" if each["new"] else "change" if each["changes"] else "unchanged"
        lines.append(f"{verb}  power budget {each['name']}")
        lines += [f"  {change}" for change in each["changes"]]
    return "\n".join(lines)


def _has_vms(plan: FilePlan) -> bool:
    return bool(plan["actions"] or plan["unplaced"] or plan["waiting"] or plan["unchanged"])


def questions(plan: FilePlan, *, prune: bool, keep_disks: bool) -> list[str]:
    """What has to be confirmed, a part of one question each."""
    return list(_questions(plan, prune=prune, keep_disks=keep_disks))


def _questions(plan: FilePlan, *, prune: bool, keep_disks: bool) -> Iterator[str]:
    hosts = plan["new_hosts"]
    if hosts:
        yield f"enrol {counted(len(hosts), 'host')} ({spanned([e['name'] for e in hosts])})"
    keys = [f"{each['name']} {each['key']}" for each in hosts if each["key"]]
    if keys:
        yield f"trust the keys {', '.join(keys)}"
    if hosts and any("layout" in each for each in plan["later"]):
        yield "partition their GPUs as the file declares"
    changes = to_change(plan["layouts"]) if plan.get("layouts") else []
    if changes:
        names = sorted({gpu["host"] for gpu in changes})
        yield f"change {counted(len(changes), 'GPU')} on {spanned(names)}"
    gone = pruned(plan) if prune else []
    if gone:
        disks = "and keep their disks" if keep_disks else "with their disks"
        yield f"delete {counted(len(gone), 'VM')} {disks} ({spanned(gone)})"


def changes_pending(plan: FilePlan, *, prune: bool = False) -> bool:
    """Would anything be done?"""
    layouts = to_change(plan["layouts"]) if plan.get("layouts") else []
    pools = plan["pools"]["changes"] if plan.get("pools") else 0
    pools += plan["flavours"]["changes"] if plan.get("flavours") else 0
    pools += plan["budgets"]["changes"] if plan.get("budgets") else 0
    gone = pruned(plan) if prune else []
    return bool(plan["changes"] or plan["new_hosts"] or layouts or pools or gone)

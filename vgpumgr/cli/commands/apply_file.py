"""`apply` and `plan` of a file with several kinds, in the order in which these need each other."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from vgpumgr.cli.command_context import Context
from vgpumgr.cli.output import print_item, say, tell_people
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.file_views import (
    budget_change_text,
    changes_pending,
    file_plan_text,
    flavour_change_text,
    questions,
)
from vgpumgr.cli.views.layout_views import refused
from vgpumgr.cli.views.outcome_views import outcome_text
from vgpumgr.cli.views.plan_views import plan_text, pruned
from vgpumgr.cli.views.pool_views import pool_change_text
from vgpumgr.endpoints.documents import DocumentText, PartOfFile
from vgpumgr.endpoints.endpoint import Result
from vgpumgr.endpoints.file_plans import ENROL_HOSTS, PLAN_FILE, EnrolHosts, FilePlan
from vgpumgr.endpoints.flavours import APPLY_FLAVOURS
from vgpumgr.endpoints.layout_plans import APPLY_LAYOUTS, LayoutDocuments
from vgpumgr.endpoints.plan_items import PlanItem
from vgpumgr.endpoints.pool_documents import APPLY_POOLS
from vgpumgr.endpoints.power_budgets import APPLY_POWER
from vgpumgr.endpoints.vm_documents import APPLY_VMS, ApplyVms, PlanVms
from vgpumgr.model.errors import Conflict, HostUnreachable, NoPlacement, VgpumgrError
from vgpumgr.model.formats import counted

_KINDS = frozenset({"Host", "Layout", "Flavour", "PowerBudget", "VM", "Pool"})


class PlanShown:
    """People see the plan before it is carried out; once more only where it has become another."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, planned: Mapping[str, Any]) -> None:
        """Show a plan that is about to be carried out."""
        text = plan_text(planned, partial=True)  # type: ignore[arg-type]  # it is a plan's item
        if text != self._last:
            tell_people(text)
            self._last = text

    def seen(self, planned: PlanItem) -> None:
        """It was shown as a part of more."""
        self._last = plan_text(planned, partial=True)


def is_mixed(text: str) -> bool:
    """Does a file hold more than VMs, or more than pools?"""
    from vgpumgr.spec import kinds

    found = kinds(text) & _KINDS
    return bool(found) and found not in ({"VM"}, {"Pool"})


def holds(text: str, kind: str) -> bool:
    """Does a file hold documents of that kind?"""
    from vgpumgr.spec import kinds

    return kind in kinds(text)


def planned_file(context: Context, asked: PlanVms) -> Result[FilePlan]:
    """The plan of a whole file."""
    return context.read(PLAN_FILE, asked)


def show_file_plan(
    context: Context, asked: PlanVms, *, partial: bool = False
) -> tuple[Result[FilePlan], bool]:
    """Print it; with it, whether anything would be done. Exit 4 where a GPU cannot be partitioned
    now, 5 where a VM cannot be placed.
    """
    found = planned_file(context, asked)
    text = file_plan_text(found.answer, file=asked.source, partial=partial, prune=asked.prune)
    print_item("Plan", found.answer, text)
    _exit_where_refused(found.answer, partial=partial)
    return found, changes_pending(found.answer, prune=asked.prune)


def _exit_where_refused(plan: FilePlan, *, partial: bool) -> None:
    if plan.get("layouts") and refused(plan["layouts"]):
        raise click.exceptions.Exit(Conflict.exit_status)
    if plan["unplaced"] and not partial:
        raise click.exceptions.Exit(NoPlacement.exit_status)


@dataclass(frozen=True, slots=True)
class FileRun:
    """One `apply` of a file: what was asked for, and whether questions are answered with yes."""

    context: Context
    asked: ApplyVms
    prune: bool
    yes: bool
    shown: PlanShown

    def run(self) -> None:
        """Plan, ask once, then hosts, layouts, VMs and pools; what fails ends it, and says what is
        left.
        """
        plan = self._planned()
        self._ask(plan)
        answer: dict[str, Any] = {"name": "apply"}
        if plan["new_hosts"]:
            answer["hosts"] = self._enrol(plan)
            plan = self._planned()
        errors = [error for error in self._stages(plan, answer) if error is not None]
        print_item("Apply", answer, _text(answer))
        for error in errors:
            raise error

    def _planned(self) -> FilePlan:
        asked = PlanVms(
            text=self.asked.text,
            source=self.asked.source,
            at_once=self.asked.at_once,
            prune=self.prune,
        )
        found = planned_file(self.context, asked)
        text = file_plan_text(
            found.answer, file=asked.source, partial=self.asked.partial, prune=self.prune
        )
        tell_people(text)
        self.shown.seen(found.answer)
        _exit_where_refused(found.answer, partial=self.asked.partial)
        if found.answer["unplaced"] == [] and found.error is not None:
            say(f"note: {found.error.message}")
        return found.answer

    def _ask(self, plan: FilePlan) -> None:
        """One question for all that has to be confirmed; a new key is confirmed by no -y."""
        for each in plan["new_hosts"]:
            if each["problem"]:
                raise HostUnreachable(
                    f"{each['name']} cannot be enrolled: {each['problem']}",
                    next=f"vgpumgr host add {each['name']} --address {each['address']}",
                )
        parts = questions(plan, prune=self.prune, keep_disks=self.asked.keep_disks)
        unknown = any(each["key"] for each in plan["new_hosts"])
        if parts:
            confirm(yes=self.yes and not unknown)(f"{'; '.join(parts)}?")

    def _enrol(self, plan: FilePlan) -> list[dict[str, Any]]:
        keys = tuple(f"{e['name']}={e['key']}" for e in plan["new_hosts"] if e["key"])
        wanted = EnrolHosts(text=self.asked.text, source=self.asked.source, keys=keys)
        done = self.context.act(ENROL_HOSTS, wanted)
        for each in done.answer["items"]:
            say(f"{each['name']}: {each['summary']}")
        if done.error is not None:
            left = plan["later"]
            say(f"not begun: {', '.join(left)}" if left else "no host after it was enrolled")
            raise done.error
        return [dict(each) for each in done.answer["items"]]

    def _stages(self, plan: FilePlan, answer: dict[str, Any]) -> list[VgpumgrError | None]:
        """The kinds of the plan that are left, one after the other; the error of the last one that
        was begun.
        """
        work: list[tuple[str, str, Callable[[FilePlan], Result[Any]]]] = []
        if plan.get("layouts") and plan["layouts"]["gpus"]:
            work.append(("layouts", "layouts", self._layouts))
        if plan.get("flavours") and plan["flavours"]["changes"]:
            work.append(("flavours", "flavours", self._flavours))
        if plan.get("budgets") and plan["budgets"]["changes"]:
            work.append(("budgets", "power budgets", self._budgets))
        if plan["changes"] or plan["unchanged"] or plan["unplaced"] or plan["waiting"]:
            work.append(("vms", "VMs", self._vms))
        if plan.get("pools"):
            work.append(("pools", "pools", self._pools))
        for number, (key, _, stage) in enumerate(work):
            left = ", ".join(name for _, name, _ in work[number + 1 :])
            done = self._done(lambda stage=stage: stage(plan), left)  # type: ignore[misc]
            answer[key] = done.answer
            finish(replace(done, error=None))
            if done.error is not None:
                if left:
                    say(f"not begun: {left}; the same command continues")
                return [done.error]
        return []

    @staticmethod
    def _done(stage: Callable[[], Result[Any]], left: str) -> Result[Any]:
        try:
            return stage()
        except VgpumgrError:
            if left:
                say(f"not begun: {left}; the same command continues")
            raise

    def _layouts(self, _: FilePlan) -> Result[Any]:
        wanted = LayoutDocuments(text=self.asked.text, source=self.asked.source)
        try:
            return carry_out(self.context, APPLY_LAYOUTS, wanted)
        except Conflict as error:
            named = f" -f {shlex.quote(self.asked.source)}"
            error.next = error.next.replace(" -f FILE", named)
            raise

    def _flavours(self, _: FilePlan) -> Result[Any]:
        wanted = DocumentText(text=self.asked.text, source=self.asked.source)
        return self.context.act(APPLY_FLAVOURS, wanted)

    def _budgets(self, plan: FilePlan) -> Result[Any]:
        """What was changed, as it was planned."""
        wanted = DocumentText(text=self.asked.text, source=self.asked.source)
        done = self.context.act(APPLY_POWER, wanted)
        return Result(answer=plan["budgets"], notes=done.notes, error=done.error)

    def _vms(self, plan: FilePlan) -> Result[Any]:
        gone = tuple(pruned(plan)) if self.prune else ()
        wanted = replace(self.asked, prune=gone, mixed=True)
        done = carry_out(self.context, APPLY_VMS, wanted, planned=self.shown)
        self.shown(done.answer)
        return done

    def _pools(self, _: FilePlan) -> Result[Any]:
        wanted = PartOfFile(text=self.asked.text, source=self.asked.source, mixed=True)
        return self.context.act(APPLY_POOLS, wanted)


def _text(answer: Mapping[str, Any]) -> str:
    """What was done, a line for each kind."""
    lines = []
    if hosts := answer.get("hosts"):
        lines.append(f"{counted(len(hosts), 'host')} enrolled")
    if layouts := answer.get("layouts"):
        lines.append(f"layouts: {outcome_text(layouts) or 'as declared'}")
    if flavours := answer.get("flavours"):
        lines.append(flavour_change_text(flavours))
    if budgets := answer.get("budgets"):
        lines.append(budget_change_text(budgets))
    if vms := answer.get("vms"):
        lines.append(f"VMs: {outcome_text(vms) or 'converged'}")
    if pools := answer.get("pools"):
        lines.append(pool_change_text(pools))
    return "\n".join(lines) or "nothing to change"

"""A drain, and an evacuation, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import table
from vgpumgr.cli.views.folding import folded
from vgpumgr.cli.views.outcomes import outcome_item
from vgpumgr.cli.views.users import cut_off_text, user_items
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.engine.draining import Choice
    from vgpumgr.engine.evacuation.plan import EvacuationPlan, Stays
    from vgpumgr.engine.running.outcome import Outcome
    from vgpumgr.engine.use_cases.drain import Drained


def drain_item(host: str, choices: Sequence[Choice]) -> dict[str, Any]:
    """The JSON of what a drain would do."""
    return {"name": host, "vms": [_choice(each) for each in choices]}


def drain_text(host: str, choices: Sequence[Choice]) -> str:
    """``desk  h1 → h2  while it runs``; of VMs with the same to say once."""
    return table(folded([_line(each) for each in choices])) or f"{host}: no VM is on it"


def drained_item(drained: Drained) -> dict[str, Any]:
    """The JSON of what a drain did."""
    return {
        **outcome_item(drained.outcome),
        "name": drained.host,
        "staying": [_choice(each) for each in drained.staying],
        "users": user_items(drained.cut_off),
    }


def drained_text(drained: Drained) -> str:
    """What was moved, then the VMs that stay."""
    moved = f"{drained.host}: {counted(len(drained.outcome.done), 'VM')} moved away"
    moved = "; ".join(filter(None, [moved, cut_off_text(drained.cut_off)]))
    return "\n".join(
        filter(None, [moved, table(folded([_line(each) for each in drained.staying]))])
    )


def evacuation_item(plan: EvacuationPlan, outcome: Outcome | None = None) -> dict[str, Any]:
    """The JSON of an evacuation; ``outcome`` None: it was only planned."""
    return {
        **(outcome_item(outcome) if outcome else {}),
        "name": plan.lost.name,
        "remade": [{"name": each.vm.name, "to": each.placed.host} for each in plan.remade],
        "staying": [
            {"name": each.vm.name, "why": each.why, "next": each.next, "pool": each.pool}
            for each in plan.staying
        ],
        "users": user_items(plan.users),
    }


def evacuation_text(plan: EvacuationPlan) -> str:
    """What becomes of each VM; of those with the same to say once."""
    rows = [[e.vm.name, f"{plan.lost.name} → {e.placed.host}", "", ""] for e in plan.remade]
    rows += [_staying(each) for each in plan.staying]
    text = table(folded(rows)) or f"{plan.lost.name}: no VM is on it"
    return "\n".join(filter(None, [text, cut_off_text(plan.users)]))


def _staying(each: Stays) -> list[str]:
    if each.pool:
        why = f"its users get another desktop of pool {each.pool}"
        return [each.vm.name, "is lost", why, f"vgpumgr pool show {each.pool}"]
    return [each.vm.name, "stays", each.why, each.next]


def _choice(choice: Choice) -> dict[str, Any]:
    plan = choice.move[0] if choice.move else None
    return {
        "name": choice.vm.name,
        "to": plan.target.name if plan else None,
        "live": plan.live if plan else None,
        "user": choice.user.user if choice.user else None,
        "cut_off": _is_cut_off(choice),
        "leaves": choice.leaves,
        "why": choice.why,
        "next": choice.next,
    }


def _line(choice: Choice) -> list[str]:
    if choice.move is None:
        return [choice.vm.name, "stays", choice.why, choice.next]
    plan = choice.move[0]
    how = "while it runs" if plan.live else "cold, and started again" if plan.runs else "off"
    user = choice.user.words if choice.user else ""
    if _is_cut_off(choice):
        user = f"{user}, and is cut off"
    return [choice.vm.name, f"{plan.source.name} → {plan.target.name}", how, user]


def _is_cut_off(choice: Choice) -> bool:
    """Does the move end a session?"""
    plan = choice.move[0] if choice.move else None
    return choice.user is not None and plan is not None and plan.runs and not plan.live

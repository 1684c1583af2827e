"""Outcomes of a change of VMs as printed, and the active users of those VMs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from vgpumgr.cli.output import print_item
from vgpumgr.cli.running_command import finish
from vgpumgr.endpoints.outcomes import OutcomeItem, UserItem, outcome_result
from vgpumgr.model.operation import TaskState

if TYPE_CHECKING:
    from vgpumgr.endpoints.endpoint import Result
    from vgpumgr.engine.desktops.user_sessions import UserAtWork
    from vgpumgr.engine.operations.operation_outcome import Outcome


F = TypeVar("F", bound=Callable[..., None])


def with_users_option(command: F) -> F:
    """Allow what cuts users off."""
    return click.option(
        "--with-users",
        is_flag=True,
        help="Even where users are at work: their sessions are cut off.",
    )(command)


def cut_off_text(users: Sequence[UserItem]) -> str:
    """``cut off: ada on cad-01``; empty where nobody is."""
    there = [f"{each['user']} on {each['vm']}" for each in users]
    return f"cut off: {', '.join(there)}" if there else ""


def outcome_text(outcome: OutcomeItem) -> str:
    """``40 of 40 done (operation 1a2b3c4d)``; empty when there was nothing to do."""
    if not outcome["operation"]:
        return ""
    done = sum(vm["state"] == TaskState.DONE for vm in outcome["vms"])
    return f"{done} of {len(outcome['vms'])} done (operation {outcome['operation'][:8]})"


def print_outcome(outcome: Outcome, users: Sequence[UserAtWork] = ()) -> None:
    """Print it, then raise for what failed; ``users`` were at work there, and are cut off."""
    print_outcome_result(outcome_result(outcome, users))


def print_outcome_result(result: Result[OutcomeItem]) -> None:
    """Print an outcome, then raise for what failed."""
    item = result.answer
    text = outcome_text(item) or "nothing to do"
    if users := item.get("users", []):
        text = f"{text}; {cut_off_text(users)}"
    print_item("Outcome", item, text)
    finish(result)

"""Outcomes of a change of VMs as printed, and the active users of those VMs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vgpumgr.cli.output import print_item

if TYPE_CHECKING:
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


def user_items(users: Sequence[UserAtWork]) -> list[dict[str, Any]]:
    """The JSON of who is at work, and where."""
    return [
        {"user": each.user, "vm": each.vm, "pool": each.pool, "disconnected": each.away}
        for each in users
    ]


def cut_off_text(users: Sequence[UserAtWork]) -> str:
    """``cut off: ada on cad-01``; empty where nobody is."""
    from vgpumgr.engine.desktops.user_sessions import named

    return f"cut off: {named(users, len(users))}" if users else ""


def outcome_item(outcome: Outcome) -> dict[str, Any]:
    """The JSON of an outcome."""
    return {
        "name": outcome.operation,
        "operation": outcome.operation,
        "vms": [
            {"name": vm.vm, "host": vm.host, "verb": vm.verb, "state": str(vm.state)}
            for vm in outcome.vms
        ],
    }


def outcome_text(outcome: Outcome) -> str:
    """``40 of 40 done (operation 1a2b3c4d)``; empty when there was nothing to do."""
    if not outcome.operation:
        return ""
    return f"{len(outcome.done)} of {len(outcome.vms)} done (operation {outcome.operation[:8]})"


def print_outcome(outcome: Outcome, users: Sequence[UserAtWork] = ()) -> None:
    """Print it, then raise for what failed; ``users`` were at work there, and are cut off."""
    item, text = outcome_item(outcome), outcome_text(outcome) or "nothing to do"
    if users:
        item["users"] = user_items(users)
        text = f"{text}; {cut_off_text(users)}"
    print_item("Outcome", item, text)
    outcome.raise_for_failure()

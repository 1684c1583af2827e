"""What came of a change of VMs, in JSON, and the users who were at work there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from vgpumgr.endpoints.endpoint import Result
from vgpumgr.model.errors import VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.engine.desktops.user_sessions import UserAtWork
    from vgpumgr.engine.operations.operation_outcome import Outcome


class VmEnd(TypedDict):
    """How the task of one VM ended; ``error`` is what went wrong, or empty."""

    name: str
    host: str
    verb: str
    state: str
    error: str


class UserItem(TypedDict):
    """A user at work on a VM."""

    user: str
    vm: str
    pool: str
    disconnected: bool


class OutcomeItem(TypedDict):
    """The end of an operation; ``operation`` is empty where there was nothing to do. ``users`` were
    at work there, and were cut off.
    """

    name: str
    operation: str
    vms: list[VmEnd]
    users: NotRequired[list[UserItem]]


def user_items(users: Sequence[UserAtWork]) -> list[UserItem]:
    """The JSON of who is at work, and where."""
    return [
        {"user": each.user, "vm": each.vm, "pool": each.pool, "disconnected": each.away}
        for each in users
    ]


def outcome_item(outcome: Outcome, users: Sequence[UserAtWork] = ()) -> OutcomeItem:
    """The JSON of an outcome."""
    item: OutcomeItem = {
        "name": outcome.operation,
        "operation": outcome.operation,
        "vms": [
            {
                "name": vm.vm,
                "host": vm.host,
                "verb": vm.verb,
                "state": str(vm.state),
                "error": str(vm.error) if vm.error else "",
            }
            for vm in outcome.vms
        ],
    }
    return {**item, "users": user_items(users)} if users else item


def outcome_result(outcome: Outcome, users: Sequence[UserAtWork] = ()) -> Result[OutcomeItem]:
    """The outcome with the error that it amounts to, where a VM is not done."""
    return Result(answer=outcome_item(outcome, users), error=failure_of(outcome))


def failure_of(outcome: Outcome) -> VgpumgrError | None:
    """What a command ends with where a VM is not done."""
    try:
        outcome.raise_for_failure()
    except VgpumgrError as error:
        return error
    return None

"""The endpoints that move a VM to another host, or plan that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import OutcomeItem, outcome_result
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.errors import VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.engine.migration.move_plan import MovePlan

LONGEST_S = 7 * 86400


class MoveCheckItem(TypedDict):
    """One thing that has to hold; ``next`` is what helps where it does not."""

    name: str
    holds: bool
    text: str
    next: str


class MovedDisk(TypedDict):
    """A disk: ``target`` is the guest's name of it. One that both hosts see is not ``copied``."""

    pool: str
    name: str
    target: str
    copied: bool
    size_bytes: int


MoveItem = TypedDict(
    "MoveItem",
    {
        "name": str,
        "from": str,
        "to": str,
        "live": bool,
        "runs": bool,
        "possible": bool,
        "checks": list[MoveCheckItem],
        "disks": list[MovedDisk],
    },
)
"""How a VM would move: ``live``, or cold, where it is started again if it ``runs`` now."""


def move_item(plan: MovePlan) -> MoveItem:
    """The JSON of a plan."""
    return {
        "name": plan.vm.name,
        "from": plan.source.name,
        "to": plan.target.name,
        "live": plan.live,
        "runs": plan.runs,
        "possible": all(check.holds for check in plan.checks),
        "checks": [
            {"name": check.name, "holds": check.holds, "text": check.text, "next": check.next}
            for check in plan.checks
        ],
        "disks": [
            {
                "pool": disk.pool,
                "name": disk.name,
                "target": disk.guest_name,
                "copied": not disk.shared,
                "size_bytes": disk.size_bytes,
            }
            for disk in plan.disks
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveVm:
    """A VM to move to the host ``to``: running, or ``cold``. ``timeout_s``: live, the move is given
    up after it; cold, how long the guest may take to power off. ``with_users``: even where users
    are at work.
    """

    name: Name
    to: Name
    cold: bool = False
    timeout_s: Annotated[float, ParameterLimits(ge=0, le=LONGEST_S)] | None = None
    with_users: bool = False


def plan_move(context: CallContext, asked: MoveVm) -> Result[MoveItem]:
    """Every check; the error is the refusal that the move would end with."""
    from vgpumgr.engine.migration.move_plan import refuse

    _require(context, asked)
    plan = context.app.engine.move_plan(
        asked.name,
        asked.to,
        cold=asked.cold,
        timeout_s=asked.timeout_s,
        with_users=asked.with_users,
    )
    refused: VgpumgrError | None = None
    try:
        refuse(plan)
    except VgpumgrError as error:
        refused = error
    return Result(answer=move_item(plan), error=refused)


def move_vm(context: CallContext, asked: MoveVm) -> Result[OutcomeItem]:
    """Move it; what keeps it from it is raised."""
    _require(context, asked)
    cuts_off = asked.cold and asked.with_users
    users = context.app.engine.users_on([asked.name]) if cuts_off else ()
    with context.changing() as engine:
        outcome = engine.migrate(
            asked.name,
            asked.to,
            cold=asked.cold,
            timeout_s=asked.timeout_s,
            with_users=asked.with_users,
        )
    return outcome_result(outcome, users)


def _require(context: CallContext, asked: MoveVm) -> None:
    ledger = context.app.ledger
    ledger.vm(asked.name)
    ledger.host(asked.to)


PLAN_MOVE = Endpoint(
    name="vm.plan-move",
    method=HttpMethod.GET,
    path="/vms/{name}/move-plan",
    permission=Permission.VM_MIGRATE,
    summary="How a VM would move to another host, with every check; nothing is changed.",
    asks=MoveVm,
    answers=MoveItem,
    kind="Move",
    work=plan_move,
    runs=Runs.WORKER,
)
MOVE_VM = Endpoint(
    name="vm.migrate",
    method=HttpMethod.POST,
    path="/vms/{name}:migrate",
    permission=Permission.VM_MIGRATE,
    summary="Move a VM to another host.",
    asks=MoveVm,
    answers=OutcomeItem,
    kind="Outcome",
    work=move_vm,
    runs=Runs.OPERATION,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (PLAN_MOVE, MOVE_VM)

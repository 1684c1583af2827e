"""The endpoints of a host emptied and out of use: drain, undrain, maintenance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.host_items import HostItem
from vgpumgr.endpoints.hosts import HostNames, NamedHosts, OneHost, uncordon_hosts
from vgpumgr.endpoints.outcomes import OutcomeItem, UserItem, failure_of, outcome_item, user_items
from vgpumgr.endpoints.shapes import ItemList, Name
from vgpumgr.model.errors import Interrupted, PartlyDone, VgpumgrError
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.engine.hosts.host_drain import DrainReport, DrainRequest, DrainTarget

Seconds = Annotated[float, ParameterLimits(ge=0, le=7 * 86400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDrain:
    """A host to empty: ``to`` these hosts alone (none named: any), ``cold`` where a VM cannot move
    running. ``timeout_s`` is for each VM: live, give up after; cold, how long the guest may take.
    ``logoff_within_s``: floating desktops are not moved, their users may log off until then.
    ``with_users``: even where a cold move cuts a user off.
    """

    name: Name
    to: HostNames = ()
    cold: bool = False
    with_users: bool = False
    timeout_s: Seconds | None = None
    logoff_within_s: Annotated[float, ParameterLimits(ge=0)] | None = None


class DrainMove(TypedDict):
    """Where a VM goes (``to`` null: it stays, ``why``), ``live`` or cold, where it is started again
    if it ``runs``. ``user`` is at work on it (``at_work`` says how), and may be ``cut_off``;
    ``leaves``: it goes by itself.
    """

    name: str
    to: str | None
    live: bool | None
    runs: bool | None
    user: str | None
    at_work: str
    cut_off: bool
    leaves: bool
    why: str
    next: str


class DrainPlanItem(TypedDict):
    """What a drain of the host would do to each VM."""

    name: str
    vms: list[DrainMove]


class DrainEnd(OutcomeItem):
    """The moves of a drain, and the VMs that are ``staying``. ``name`` is the host."""

    staying: list[DrainMove]


def plan_drain(context: CallContext, asked: HostDrain) -> Result[DrainPlanItem]:
    """Probe, and say where every VM would go; nothing is changed."""
    choices = context.app.engine.drain_plan(_request(context, asked))
    item: DrainPlanItem = {"name": asked.name, "vms": [_move(each) for each in choices]}
    error = _staying_error([each for each in choices if each.move is None], asked.name)
    return Result(answer=item, error=error)


def drain_host(context: CallContext, asked: HostDrain) -> Result[DrainEnd]:
    """Cordon the host and move every VM away; the same again resumes."""
    wanted = _request(context, asked)
    with context.changing() as engine:
        drained = engine.drain(wanted)
    item: DrainEnd = {
        **outcome_item(drained.outcome),
        "name": drained.host,
        "staying": [_move(each) for each in drained.staying],
        "users": _users(drained),
    }
    interrupted = context.app.stop.is_set()
    return Result(answer=item, error=_interrupted(drained) if interrupted else _error(drained))


def _request(context: CallContext, asked: HostDrain) -> DrainRequest:
    from vgpumgr.engine.hosts.host_drain import DrainRequest

    for each in (asked.name, *asked.to):
        context.app.ledger.host(each)
    within = asked.logoff_within_s
    return DrainRequest(
        host=asked.name,
        to=asked.to,
        cold=asked.cold,
        with_users=asked.with_users,
        timeout_s=asked.timeout_s,
        logoff_by=None if within is None else time.time() + within,
    )


def _users(drained: DrainReport) -> list[UserItem]:
    return user_items(drained.cut_off)


def _move(choice: DrainTarget) -> DrainMove:
    plan = choice.move[0] if choice.move else None
    ends = plan is not None and plan.runs and not plan.live
    return {
        "name": choice.vm.name,
        "to": plan.target.name if plan else None,
        "live": plan.live if plan else None,
        "runs": plan.runs if plan else None,
        "user": choice.user.user if choice.user else None,
        "at_work": choice.user.words if choice.user else "",
        "cut_off": choice.user is not None and ends,
        "leaves": choice.leaves,
        "why": choice.why,
        "next": choice.next,
    }


def _interrupted(drained: DrainReport) -> Interrupted:
    """What was left: perhaps a move that waits, and a host that is cordoned and not empty."""
    name, move = drained.host, ""
    if drained.outcome.interrupted:
        left = failure_of(drained.outcome)
        move = f"{left.next}; then " if isinstance(left, Interrupted) else ""
    return Interrupted(
        f"interrupted: {counted(len(drained.outcome.done), 'VM')} moved away from {name}",
        why=f"{name} stays cordoned, and draining has stopped",
        next=f"{move}vgpumgr host drain {name} resumes, vgpumgr host undrain {name} ends it",
    )


def _error(drained: DrainReport) -> VgpumgrError | None:
    """A move that failed is told like any other."""
    still = ", which stays cordoned and draining"
    return _staying_error(drained.staying, drained.host, still) or failure_of(drained.outcome)


def _staying_error(
    choices: Sequence[DrainTarget], name: str, more: str = ""
) -> VgpumgrError | None:
    staying = [each for each in choices if not each.leaves]
    users = [each.user for each in staying if each.user is not None and each.cut_off]
    if users and len(users) == len(staying):
        from vgpumgr.engine.migration.users_at_work import users_cut_off

        return users_cut_off(users, next=staying[0].next)
    if not staying:
        return None
    return PartlyDone(
        f"{counted(len(staying), 'VM')} cannot leave {name}{more}",
        why="; ".join(f"{each.vm.name}: {each.why}" for each in staying[:5]),
        next=staying[0].next,
    )


class MaintenanceEnd(TypedDict):
    """A host that takes VMs again; ``drifts`` are differences that do no harm, a line each."""

    name: str
    drifts: list[str]


def enter_maintenance(context: CallContext, asked: OneHost) -> Result[MaintenanceEnd]:
    """Put an empty host into maintenance: it is not touched, and may be off."""
    context.app.ledger.host(asked.name)
    context.app.engine.enter_maintenance(asked.name)
    return Result(answer={"name": asked.name, "drifts": []})


def leave_maintenance(context: CallContext, asked: OneHost) -> Result[MaintenanceEnd]:
    """Compare the host with the ledger, then let it take VMs again."""
    context.app.ledger.host(asked.name)
    report = context.app.engine.leave_maintenance(asked.name)
    return Result(answer={"name": asked.name, "drifts": [each.text for each in report.drifts]})


PLAN_DRAIN = Endpoint(
    name="host.plan-drain",
    method=HttpMethod.GET,
    path="/hosts/{name}/drain-plan",
    permission=Permission.HOST_READ,
    summary="Where a drain would move every VM of a host.",
    asks=HostDrain,
    answers=DrainPlanItem,
    kind="DrainPlan",
    work=plan_drain,
    runs=Runs.WORKER,
)
DRAIN_HOST = Endpoint(
    name="host.drain",
    method=HttpMethod.POST,
    path="/hosts/{name}:drain",
    permission=Permission.HOST_WRITE,
    summary="Cordon a host and move every VM away from it.",
    asks=HostDrain,
    answers=DrainEnd,
    kind="Drain",
    work=drain_host,
    runs=Runs.OPERATION,
)
UNDRAIN_HOSTS = Endpoint(
    name="host.undrain",
    method=HttpMethod.POST,
    path="/hosts:undrain",
    permission=Permission.HOST_WRITE,
    summary="End a drain: hosts accept VMs again.",
    asks=NamedHosts,
    answers=ItemList[HostItem],
    kind="HostList",
    work=uncordon_hosts,
)
ENTER_MAINTENANCE = Endpoint(
    name="host.enter-maintenance",
    method=HttpMethod.POST,
    path="/hosts/{name}:enter-maintenance",
    permission=Permission.HOST_WRITE,
    summary="Put an empty host into maintenance.",
    asks=OneHost,
    answers=MaintenanceEnd,
    kind="Maintenance",
    work=enter_maintenance,
    runs=Runs.WORKER,
)
LEAVE_MAINTENANCE = Endpoint(
    name="host.leave-maintenance",
    method=HttpMethod.POST,
    path="/hosts/{name}:leave-maintenance",
    permission=Permission.HOST_WRITE,
    summary="Compare a host with the ledger, and let it accept VMs again.",
    asks=OneHost,
    answers=MaintenanceEnd,
    kind="Maintenance",
    work=leave_maintenance,
    runs=Runs.WORKER,
)

ENDPOINTS = (PLAN_DRAIN, DRAIN_HOST, UNDRAIN_HOSTS, ENTER_MAINTENANCE, LEAVE_MAINTENANCE)

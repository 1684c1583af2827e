"""The endpoints of a failed host: how it is fenced, and its VMs recreated elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NotRequired

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.host_items import FenceItem
from vgpumgr.endpoints.hosts import OneHost, host_from
from vgpumgr.endpoints.outcomes import (
    OutcomeItem,
    UserItem,
    VmEnd,
    failure_of,
    outcome_item,
    user_items,
)
from vgpumgr.endpoints.shapes import Name
from vgpumgr.endpoints.tags import host_tag
from vgpumgr.model.actor import current_actor
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import PartlyDone, UsageError, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.host import Fence, HostRecord, says_off
from vgpumgr.model.role_binding import EVERY_TENANT

if TYPE_CHECKING:
    from vgpumgr.engine.hosts.evacuation_plan import EvacuationPlan

Argv = Annotated[tuple[str, ...], ParameterLimits(min_length=1, max_length=100)]


class HostVms(TypedDict):
    """The names of a host's VMs."""

    name: str
    vms: list[str]


def vms_on_host(context: CallContext, asked: OneHost) -> Result[HostVms]:
    """The VMs that the ledger has on a host."""
    ledger = context.app.ledger
    host = ledger.host(asked.name).name
    names = [vm.name for vm in ledger.vms() if vm.host == host]
    return Result(answer={"name": host, "vms": names})


class RemadeVm(TypedDict):
    """A VM that is recreated, and where."""

    name: str
    to: str


class LostVm(TypedDict):
    """A VM that is not recreated; ``pool``: its users get another desktop of that pool."""

    name: str
    why: str
    next: str
    pool: str


class EvacuationItem(TypedDict):
    """What becomes of each VM of a lost host; what was done has the keys of an outcome, too."""

    name: str
    remade: list[RemadeVm]
    staying: list[LostVm]
    users: list[UserItem]
    operation: NotRequired[str]
    vms: NotRequired[list[VmEnd]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationPreview:
    """A lost host. ``will_not_boot``: somebody vouches that it does not boot by itself."""

    name: Name
    will_not_boot: bool = False


def plan_evacuation(context: CallContext, asked: EvacuationPreview) -> Result[EvacuationItem]:
    """Probe the other hosts, and say what would happen to each VM; nothing is changed."""
    engine = context.app.engine
    context.app.ledger.host(asked.name)
    plan = engine.evacuation_plan(asked.name, will_not_boot=asked.will_not_boot)
    return Result(answer=_item(plan), error=_staying_error(plan))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuateHost:
    """A lost host. ``confirm_off`` is its name once more: the caller's word that it is off and does
    not boot by itself. Without, its fence block switches it off and must say so.
    """

    name: Name
    confirm_off: str | None = None


def evacuate_host(context: CallContext, asked: EvacuateHost) -> Result[EvacuationItem]:
    """Recreate the VMs of a lost host elsewhere: only those whose disks other hosts see."""
    context.app.ledger.host(asked.name)
    if asked.confirm_off not in {None, asked.name}:
        raise UsageError(
            f"{asked.confirm_off!r} is not {asked.name}: nothing was changed",
            next=f"--confirm-off {asked.name}",
        )
    word = asked.confirm_off is not None
    with _vouched(context, asked.name, word=word), context.changing() as engine:
        plan, outcome = engine.evacuate(asked.name, will_not_boot=word)
    item: EvacuationItem = {**outcome_item(outcome), **_item(plan)}
    return Result(answer=item, error=failure_of(outcome) or _staying_error(plan))


@contextmanager
def _vouched(context: CallContext, host: str, *, word: bool) -> Iterator[None]:
    """The caller's word holds for this request alone."""
    if not word:
        yield
        return
    from vgpumgr.app.actor import actor

    who = current_actor()
    with context.app.fences.vouched(host, who.user if who else actor()):
        yield


def _item(plan: EvacuationPlan) -> EvacuationItem:
    return {
        "name": plan.lost.name,
        "remade": [{"name": each.vm.name, "to": each.placed.host} for each in plan.remade],
        "staying": [
            {"name": each.vm.name, "why": each.why, "next": each.next, "pool": each.pool}
            for each in plan.staying
        ],
        "users": user_items(plan.users),
    }


def _staying_error(plan: EvacuationPlan) -> VgpumgrError | None:
    staying = [each for each in plan.staying if not each.pool]
    if not staying:
        return None
    return PartlyDone(
        f"{counted(len(staying), 'VM')} of {plan.lost.name} cannot be recreated",
        why="; ".join(f"{each.vm.name}: {each.why}" for each in staying[:5]),
        next=staying[0].next,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFence:
    """The programs of a host's fence block, as argument lists: they run at the controller, without
    a shell. ``secret`` is the name of a secret of the fleet, of which ``{secret}`` is the path.
    """

    name: Name
    off: Argv
    status: Argv
    secret: Name | None = None


class FencedHost(OutcomeItem):
    """How a host is fenced (null: not at all), and what came of its VMs' autostart."""

    fence: FenceItem | None


def set_fence(context: CallContext, asked: NewFence) -> Result[FencedHost]:
    """Set the fence block, by the checks of a Host document."""
    record = context.app.ledger.host(asked.name)
    return _fenced(context, record, _checked(record, asked))


def remove_fence(context: CallContext, asked: OneHost) -> Result[FencedHost]:
    """Take the fence block away."""
    return _fenced(context, context.app.ledger.host(asked.name), None)


def _checked(record: HostRecord, asked: NewFence) -> Fence | None:
    block = {"off": list(asked.off), "status": list(asked.status), "secret": asked.secret}
    return host_from(name=record.name, address=record.address, fence=block).fence


def _fenced(context: CallContext, record: HostRecord, wanted: Fence | None) -> Result[FencedHost]:
    with context.changing() as engine:
        outcome = engine.fence(record.name, wanted)
    item: FencedHost = {
        **outcome_item(outcome),
        "name": record.name,
        "fence": to_plain(wanted),
    }
    return Result(answer=item, error=failure_of(outcome), notes=_unset(context, wanted))


def _unset(context: CallContext, fence: Fence | None) -> tuple[str, ...]:
    """What is still to be done where its secret has no value here."""
    name = fence.secret if fence is not None else ""
    if not name or (EVERY_TENANT, name) in context.app.secrets.names():
        return ()
    return (f"there is no secret {name} here yet: vgpumgr secret set {name}",)


class FenceState(TypedDict):
    """What the status program says of a host now, and whether that means that it is off."""

    name: str
    says: str
    off: bool


def check_fence(context: CallContext, asked: OneHost) -> Result[FenceState]:
    """Run the status program; nothing is switched off. UsageError without a fence block."""
    from vgpumgr.app.fence_programs import words

    record = context.app.ledger.host(asked.name)
    if record.fence is None:
        raise UsageError(
            f"{record.name} has no fence block",
            next=f"vgpumgr host fence {record.name} --off '[…]' --status '[…]'",
        )
    ran = context.app.fences.status(record.fence)
    off = says_off(ran.code, ran.out)
    return Result(answer={"name": record.name, "says": words(ran), "off": off})


VMS_ON_HOST = Endpoint(
    name="host.vms",
    method=HttpMethod.GET,
    path="/hosts/{name}/vms",
    permission=Permission.HOST_READ,
    summary="The names of the VMs on a host.",
    asks=OneHost,
    answers=HostVms,
    kind="HostVMs",
    work=vms_on_host,
)
PLAN_EVACUATION = Endpoint(
    name="host.plan-evacuation",
    method=HttpMethod.GET,
    path="/hosts/{name}/evacuation-plan",
    permission=Permission.HOST_READ,
    summary="What an evacuation of a lost host would do to each VM.",
    asks=EvacuationPreview,
    answers=EvacuationItem,
    kind="Evacuation",
    work=plan_evacuation,
    runs=Runs.WORKER,
)
EVACUATE_HOST = Endpoint(
    name="host.evacuate",
    method=HttpMethod.POST,
    path="/hosts/{name}:evacuate",
    permission=Permission.HOST_WRITE,
    summary="Recreate the VMs of a lost host elsewhere.",
    asks=EvacuateHost,
    answers=EvacuationItem,
    kind="Evacuation",
    work=evacuate_host,
    runs=Runs.OPERATION,
)
SET_FENCE = Endpoint(
    name="host.set-fence",
    method=HttpMethod.PUT,
    path="/hosts/{name}/fence",
    permission=Permission.HOST_PROGRAM,
    summary="Set the programs that switch a host off and say whether it is.",
    asks=NewFence,
    answers=FencedHost,
    kind="FencedHost",
    tag=host_tag,
    work=set_fence,
    runs=Runs.OPERATION,
)
REMOVE_FENCE = Endpoint(
    name="host.remove-fence",
    method=HttpMethod.DELETE,
    path="/hosts/{name}/fence",
    permission=Permission.HOST_WRITE,
    summary="Remove the fence block of a host.",
    asks=OneHost,
    answers=FencedHost,
    kind="FencedHost",
    tag=host_tag,
    work=remove_fence,
    runs=Runs.OPERATION,
)
CHECK_FENCE = Endpoint(
    name="host.check-fence",
    method=HttpMethod.POST,
    path="/hosts/{name}/fence:check",
    permission=Permission.HOST_PROGRAM,
    summary="Run the status program of a host's fence block.",
    asks=OneHost,
    answers=FenceState,
    kind="FenceState",
    work=check_fence,
    runs=Runs.WORKER,
)

ENDPOINTS = (
    VMS_ON_HOST,
    PLAN_EVACUATION,
    EVACUATE_HOST,
    SET_FENCE,
    REMOVE_FENCE,
    CHECK_FENCE,
)

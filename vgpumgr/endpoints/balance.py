"""The endpoints of balance: VMs that leave hot hosts for cooler ones, planned and moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.figure_items import gpu_now, newest_sample
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_item
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.errors import PartlyDone, StaleGeneration, VgpumgrError
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.engine.hosts.host_balance import BalanceMove, BalancePlan, BalanceRequest
    from vgpumgr.engine.hosts.host_drain import DrainTarget
    from vgpumgr.engine.hosts.host_shares import HostShare

MayMove = Annotated[tuple[Name, ...], ParameterLimits(max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceWish:
    """A host is ``hot`` above that share of its vCPUs, its memory, or its GPUs' time. At most
    ``max_moves``. ``allow_cold``: VMs that cannot move running may be stopped, ``with_users`` even
    where a user is at work.
    """

    hot: Annotated[float, ParameterLimits(ge=0.1, le=1)] = 0.8
    max_moves: Annotated[int, ParameterLimits(ge=1, le=1000)] = 10
    allow_cold: bool = False
    with_users: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRun(BalanceWish):
    """The same, to be carried out. ``may_move`` are the VMs that may move (null: any): nothing is
    moved where the plan moves another.
    """

    may_move: MayMove | None = None


class ShareItem(TypedDict):
    """Shares of a host from 0 to 1, before the moves and after them; ``load`` is that of its GPUs,
    as `serve` measured it last.
    """

    host: str
    hot: bool
    cpu: float
    memory: float
    load: float
    after: float


BalanceMoveItem = TypedDict(
    "BalanceMoveItem",
    {"name": str, "from": str, "to": str, "how": str, "user": str | None, "cuts_off": bool},
)
"""A VM goes to another host: ``how`` is live, cold or off. ``user`` is at work on it."""


class StayingItem(TypedDict):
    """A VM of a host that stays hot, and why it does not move."""

    name: str
    host: str
    why: str


class BalancePlanItem(TypedDict):
    """The moves in their order, all hosts, and the VMs of hosts that stay hot."""

    name: str
    hot: float
    moves: list[BalanceMoveItem]
    hosts: list[ShareItem]
    staying: list[StayingItem]


class BalanceEnd(BalancePlanItem, OutcomeItem):
    """A plan, and its end."""


def plan_balance(context: CallContext, asked: BalanceWish) -> Result[BalancePlanItem]:
    """Probe, and show which VMs would leave hot hosts; nothing is changed."""
    return Result(answer=_plan_item(_planned(context, asked)))


def run_balance(context: CallContext, asked: BalanceRun) -> Result[BalanceEnd]:
    """Plan, and move one VM after the other; the first move that is refused ends it."""
    planned = _planned(context, asked)
    _require_agreed(planned, asked.may_move)
    with context.changing() as engine:
        done = engine.balance(planned)
    item: Any = {**_plan_item(planned), **outcome_item(done.outcome), "name": "balance"}
    refused = None if done.refused is None else _refused(done.refused)
    return Result(answer=item, error=failure_of(done.outcome) or refused)


def _planned(context: CallContext, asked: BalanceWish) -> BalancePlan:
    from vgpumgr.engine.hosts.host_balance import BalanceRequest

    context.app.require_hosts()
    wanted: BalanceRequest = BalanceRequest(
        hot=asked.hot,
        loads=_loads(context),
        cold=asked.allow_cold,
        with_users=asked.with_users,
        most=asked.max_moves,
    )
    return context.app.engine.balance_plan(wanted)


def _loads(context: CallContext) -> dict[str, float]:
    """The mean of what the GPUs of each host measured last; none where nothing is measured."""
    from vgpumgr.engine.inventory.ledger_view import read_view
    from vgpumgr.telemetry.current_figures import current_gpus
    from vgpumgr.telemetry.fleet_frame import frames

    sample = newest_sample(context.app)
    if sample is None:
        return {}
    found: dict[str, list[float]] = {}
    for gpu in current_gpus(frames(read_view(context.app.ledger)), sample):
        used = gpu_now(gpu)["utilization"]
        if used is not None:
            found.setdefault(gpu.frame.record.host, []).append(used)
    return {host: fmean(used) for host, used in found.items()}


def _require_agreed(plan: BalancePlan, may_move: Sequence[str] | None) -> None:
    """StaleGeneration where the plan moves a VM that was not agreed to."""
    if may_move is None:
        return
    others = sorted({each.choice.vm.name for each in plan.moves} - set(may_move))
    if others:
        raise StaleGeneration(
            f"the plan has changed: it would move {', '.join(others[:5])}, too",
            why="nothing was moved",
            next="the same command again: it makes a new plan and asks",
        )


def _refused(stays: DrainTarget) -> VgpumgrError:
    return PartlyDone(f"{stays.vm.name} cannot leave {stays.vm.host}", why=stays.why)


def _plan_item(plan: BalancePlan) -> BalancePlanItem:
    after = {each.host: each.heat for each in plan.after}
    return {
        "name": "balance",
        "hot": plan.wanted.hot,
        "moves": [_move(each) for each in plan.moves],
        "hosts": [_share(each, after, plan.wanted.hot) for each in plan.before],
        "staying": [
            {"name": each.vm.name, "host": each.vm.host, "why": each.why} for each in plan.staying
        ],
    }


def _share(share: HostShare, after: dict[str, float], hot: float) -> ShareItem:
    return {
        "host": share.host,
        "hot": share.heat > hot,
        "cpu": round(share.cpu, 4),
        "memory": round(share.memory, 4),
        "load": round(share.load, 4),
        "after": round(after[share.host], 4),
    }


def _move(move: BalanceMove) -> BalanceMoveItem:
    choice = move.choice
    assert choice.move is not None, "a move that was planned"
    plan = choice.move[0]
    return {
        "name": choice.vm.name,
        "from": choice.vm.host,
        "to": move.target.host,
        "how": "live" if plan.live else "cold" if plan.runs else "off",
        "user": choice.user.user if choice.user else None,
        "cuts_off": choice.user is not None and plan.runs and not plan.live,
    }


def hosts_words(item: BalancePlanItem) -> str:
    """``1 host above 80%``."""
    hot = sum(each["hot"] for each in item["hosts"])
    return f"{counted(hot, 'host') if hot else 'no host'} above {item['hot']:.0%}"


PLAN_BALANCE = Endpoint(
    name="balance.plan",
    method=HttpMethod.GET,
    path="/balance-plan",
    permission=Permission.VM_MIGRATE,
    summary="Which VMs would leave hot hosts for cooler ones.",
    asks=BalanceWish,
    answers=BalancePlanItem,
    kind="BalancePlan",
    work=plan_balance,
    runs=Runs.WORKER,
)
RUN_BALANCE = Endpoint(
    name="balance.run",
    method=HttpMethod.POST,
    path="/fleet:balance",
    permission=Permission.VM_MIGRATE,
    summary="Move VMs from hot hosts to cooler ones.",
    asks=BalanceRun,
    answers=BalanceEnd,
    kind="Balance",
    work=run_balance,
    runs=Runs.OPERATION,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (PLAN_BALANCE, RUN_BALANCE)

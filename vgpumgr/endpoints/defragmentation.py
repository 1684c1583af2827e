"""The endpoints of defragmentation: VMs moved to make room, planned and carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.defrag_items import (
    DefragEnd,
    DefragPlanItem,
    defrag_item,
    defragmented_item,
    goal_words,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_result
from vgpumgr.endpoints.shapes import Name, Nothing
from vgpumgr.model.defrag import DefragGoal, EmptyGpus, FreeRoom, MoveMode, NoDefragMoves
from vgpumgr.model.errors import (
    NoPlacement,
    PartlyDone,
    StaleGeneration,
    UnknownProfile,
    UsageError,
    VgpumgrError,
)
from vgpumgr.model.formats import counted
from vgpumgr.model.placement import by_board
from vgpumgr.model.vm import GpuRequest, VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.defrag.defrag_apply import DefragReport
    from vgpumgr.engine.defrag.defrag_plan import DefragPlan, DefragRequest

MayStop = Annotated[tuple[Name, ...], ParameterLimits(max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragWish:
    """The goal: ``free`` empty GPUs in total, or room for ``count`` VMs with one GPU part of a
    ``profile``; without either, less fragmentation than the threshold. At most ``max_moves``.
    ``allow_cold``: VMs that cannot move running may be stopped, ``with_users`` even where a user is
    at work; ``at_logoff``: desktops may be, once their users have logged off.
    """

    free: Annotated[int, ParameterLimits(ge=1)] | None = None
    profile: Name | None = None
    count: Annotated[int, ParameterLimits(ge=1, le=10_000)] | None = None
    vcpus: Annotated[int, ParameterLimits(ge=1, le=512)] | None = None
    memory_mib: Annotated[int, ParameterLimits(ge=1)] | None = None
    max_moves: Annotated[int, ParameterLimits(ge=0)] | None = None
    allow_cold: bool = False
    with_users: bool = False
    at_logoff: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Defragmentation(DefragWish):
    """The same, to be carried out. ``may_stop`` are the VMs that may be stopped for it (null: any):
    nothing is moved where the plan stops another.
    """

    may_stop: MayStop | None = None


def plan_defrag(context: CallContext, asked: DefragWish) -> Result[DefragPlanItem]:
    """Probe, and show the fewest moves that reach the goal; nothing is changed."""
    found, unread = _planned(context, _wanted(context, asked))
    return Result(answer=defrag_item(found), error=_refusal(found) or _left_out(unread))


def finish_moves(context: CallContext, _: Nothing) -> Result[OutcomeItem]:
    """End interrupted moves, which plans would have to go around."""
    context.app.require_hosts()
    with context.changing() as engine:
        return outcome_result(engine.end_moves())


def apply_defrag(context: CallContext, asked: Defragmentation) -> Result[DefragEnd]:
    """Plan, and move one VM after the other; the first move that fails ends it."""
    wanted = _wanted(context, asked)
    with context.changing() as engine:
        engine.end_moves().raise_for_failure()
    found, unread = _planned(context, wanted)
    if (refused := _refusal(found)) is not None:
        raise refused
    _require_agreed(found, asked.may_stop)
    with context.changing() as engine:
        done = engine.defrag(found)
    error = _error(done) or _missed(context, wanted)
    return Result(answer=defragmented_item(done), notes=unread, error=error)


def _goal(asked: DefragWish) -> DefragGoal | None:
    """None: the gauge. UsageError for two goals, and for what belongs to a goal not given."""
    if asked.free is not None and asked.profile is not None:
        raise UsageError("--free and --for are different goals", next="give one of them")
    if asked.profile is None:
        given = {"--count": asked.count, "--vcpus": asked.vcpus, "--memory": asked.memory_mib}
        alone = [name for name, value in given.items() if value is not None]
        if alone:
            raise UsageError(f"{', '.join(alone)} needs --for", next="give the profile with --for")
        return None if asked.free is None else EmptyGpus(gpus=asked.free)
    request = VmSpec(
        name="defrag",
        vcpus=asked.vcpus or 2,
        memory_mib=asked.memory_mib or 4096,
        gpus=(GpuRequest(profile=asked.profile),),
    )
    return FreeRoom(request=request, count=asked.count or 1)


def _wanted(context: CallContext, asked: DefragWish) -> DefragRequest:
    from vgpumgr.engine.defrag.defrag_plan import DefragRequest

    goal = _goal(asked)
    context.app.require_hosts()
    return DefragRequest(
        goal=goal,
        share=context.app.config.defrag_threshold,
        most=asked.max_moves,
        cold=asked.allow_cold,
        with_users=asked.with_users,
        at_logoff=asked.at_logoff,
    )


def _planned(context: CallContext, wanted: DefragRequest) -> tuple[DefragPlan, tuple[str, ...]]:
    """The plan, and a line for each host that was not read."""
    planned = context.app.engine.defrag_plan(wanted)
    if isinstance(wanted.goal, FreeRoom):
        _require_made(context, wanted.goal.request.gpus[0].profile)
    return planned


def _require_made(context: CallContext, profile: str) -> None:
    """UnknownProfile for what no GPU of the fleet makes."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    fleet = build_fleet(read_view(context.app.ledger))
    offers = (o for host in fleet.hosts for gpu in host.gpus for o in gpu.offers)
    if not any(profile in (offer.profile, *offer.names) for offer in offers):
        raise UnknownProfile(f"no GPU of the fleet can provide {profile}", next="vgpumgr capacity")


def _require_agreed(plan: DefragPlan, may_stop: Sequence[str] | None) -> None:
    """StaleGeneration where the plan stops a VM that was not agreed to."""
    if may_stop is None or isinstance(plan.found, NoDefragMoves):
        return
    cold = (move.vm for move in plan.found.moves if move.way.how is MoveMode.COLD)
    others = sorted(set(cold) - set(may_stop))
    if others:
        raise StaleGeneration(
            f"the plan has changed: it would stop {', '.join(others[:5])}, too",
            why="nothing was moved",
            next="the same command again: it makes a new plan and asks",
        )


def _left_out(unread: Sequence[str]) -> VgpumgrError | None:
    if not unread:
        return None
    return PartlyDone(f"{counted(len(unread), 'host')} were left out", why="; ".join(unread))


def _refusal(plan: DefragPlan) -> VgpumgrError | None:
    """NoPlacement, with what is in the way and what would help; None where moves were found."""
    found = plan.found
    if not isinstance(found, NoDefragMoves):
        return None
    groups = by_board(each.reason for each in found.obstacles)
    why = [f"{each.nearest.host}: {each.text}" for each in groups]
    if found.needs is not None:
        why = [f"it takes {counted(found.needs, 'move')}, --max-moves allows {plan.wanted.most}"]
    elif found.reachable:
        why.insert(0, f"{found.reachable} can be reached")
    if plan.users:
        from vgpumgr.engine.migration.users_at_work import users_cut_off

        again = "the same command with --at-logoff waits for them, with --with-users it does not"
        return users_cut_off(plan.users, next=again)
    helps = "vgpumgr map"
    if plan.colder is not None:
        helps = (
            f"--allow-cold: {counted(plan.colder, 'move')} would be enough if VMs may be stopped"
        )
    return NoPlacement(
        f"no moves were found that reach {goal_words(plan.wanted.goal, plan.wanted.share)}",
        why="; ".join([*why[:8], *plan.refused[:4]]),
        next=helps,
    )


def _error(done: DefragReport) -> VgpumgrError | None:
    """What ended it before its last move."""
    found, outcome = done.plan.found, done.outcome
    if outcome.interrupted:
        return failure_of(outcome)
    total = 0 if isinstance(found, NoDefragMoves) else len(found.moves)
    if len(done.done) == total:
        return None
    if done.waiting and len(done.done) + len(done.waiting) == total:
        return PartlyDone(
            f"{len(done.done)} of {counted(total, 'move')} done, the others wait for a logoff",
            why=", ".join(f"{move.user} is on {move.vm}" for move in done.waiting),
            next="vgpumgr serve carries them out then; vgpumgr defrag "
            "list, vgpumgr defrag cancel VM",
        )
    errors = [done.error, *(vm.error for vm in outcome.vms)]
    error = next(filter(None, errors), None)
    return PartlyDone(
        f"{len(done.done)} of {counted(total, 'move')} done",
        why=f"{error.message}: {error.why}" if error and error.why else str(error or ""),
        next="the same command again: it makes a new plan and continues",
    )


def _missed(context: CallContext, wanted: DefragRequest) -> VgpumgrError | None:
    """PartlyDone where the goal is not reached: others may have taken what the moves freed."""
    found = _planned(context, wanted)[0].found
    if not isinstance(found, NoDefragMoves) and not found.moves:
        return None
    goal = goal_words(wanted.goal, wanted.share)
    return PartlyDone(
        f"all moves are done, but the goal is not reached: {goal}", next="vgpumgr map"
    )


PLAN_DEFRAG = Endpoint(
    name="defrag.plan",
    method=HttpMethod.GET,
    path="/defrag-plan",
    permission=Permission.VM_MIGRATE,
    summary="The fewest moves that reach a goal.",
    asks=DefragWish,
    answers=DefragPlanItem,
    kind="DefragPlan",
    work=plan_defrag,
    runs=Runs.WORKER,
)
FINISH_MOVES = Endpoint(
    name="defrag.finish",
    method=HttpMethod.POST,
    path="/fleet:finish-moves",
    permission=Permission.VM_MIGRATE,
    summary="End moves of VMs that were interrupted.",
    asks=Nothing,
    answers=OutcomeItem,
    kind="Outcome",
    work=finish_moves,
    runs=Runs.OPERATION,
)
APPLY_DEFRAG = Endpoint(
    name="defrag.apply",
    method=HttpMethod.POST,
    path="/fleet:defrag",
    permission=Permission.VM_MIGRATE,
    summary="Move VMs so that a goal is reached.",
    asks=Defragmentation,
    answers=DefragEnd,
    kind="Defrag",
    work=apply_defrag,
    runs=Runs.OPERATION,
)

ENDPOINTS = (PLAN_DEFRAG, FINISH_MOVES, APPLY_DEFRAG)

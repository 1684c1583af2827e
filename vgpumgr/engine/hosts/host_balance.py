"""`balance`: VMs moved from hot hosts to cooler ones, by the checks and the moves of a drain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.engine.hosts.host_drain import (
    DrainRequest,
    DrainTarget,
    choose_target,
    leave_for_any,
    moved_view,
)
from vgpumgr.engine.hosts.host_shares import (
    HostShare,
    HostShares,
    candidates,
    coolers,
    hottest,
)
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.vm import VmRecord

MOST_MOVES = 10
"""Moves of one plan, unless more are asked for."""
_MOST_TRIED = 4
"""VMs of a hot host that are looked at for one move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRequest:
    """A host is ``hot`` above that share of its vCPUs or memory, or of its GPUs' time by ``loads``
    (by host, from 0 to 1). ``cold``: a running VM that cannot move live may be stopped,
    ``with_users`` even where that cuts a user off. ``most`` moves are made.
    """

    hot: float = 0.8
    loads: Mapping[str, float] = field(default_factory=dict)
    cold: bool = False
    with_users: bool = False
    most: int = MOST_MOVES


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceMove:
    """A VM that would move, and how hot both hosts were before."""

    choice: DrainTarget
    source: HostShare
    target: HostShare


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlan:
    """The moves in their order, all hosts ``before`` and ``after`` them, and the VMs of hosts that
    stay hot which could not move, with the reason.
    """

    wanted: BalanceRequest
    moves: tuple[BalanceMove, ...]
    before: tuple[HostShare, ...]
    after: tuple[HostShare, ...]
    staying: tuple[DrainTarget, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceReport:
    """What was done of a plan: the first move that is refused ends it."""

    plan: BalancePlan
    outcome: Outcome
    refused: DrainTarget | None = None


def plan(context: EngineContext, wanted: BalanceRequest) -> BalancePlan:
    """Probe, and say which VMs would leave hot hosts; nothing is changed."""
    context.refresh_all()
    view = context.view()
    parts = HostShares(view, wanted.loads)
    shares, moves, staying = dict(parts.now), list[BalanceMove](), dict[str, DrainTarget]()
    stuck, gone = set[str](), set[str]()
    while len(moves) < wanted.most:
        host = hottest((each for name, each in shares.items() if name not in stuck), wanted.hot)
        if host is None:
            break
        left = [vm for vm in view.vms if vm.id not in gone]
        for vm in list(candidates(left, host, parts, wanted.hot))[:_MOST_TRIED]:
            to = coolers(vm, shares, parts, wanted.hot)
            choice = _choice(context, view, vm, _request(vm, to, wanted))
            if choice.move is None:
                staying[vm.id] = choice
                continue
            target = shares[choice.move[0].target.name]
            moves.append(BalanceMove(choice=choice, source=host, target=target))
            shares[host.host] = host.with_vm(parts.part(vm, host.host), -1)
            shares[target.host] = target.with_vm(parts.part(vm, target.host))
            view = moved_view(view, choice.move[0], context.opening())
            gone.add(vm.id)
            break
        else:
            stuck.add(host.host)
    return BalancePlan(
        wanted=wanted,
        moves=tuple(moves),
        before=tuple(parts.now.values()),
        after=tuple(shares.values()),
        staying=tuple(each for each in staying.values() if each.vm.host in stuck),
    )


def run(context: EngineContext, planned: BalancePlan) -> BalanceReport:
    """Move one VM after the other, each checked again; the first that is refused ends it."""
    outcome = Outcome()
    for move in planned.moves:
        if context.stop.is_set():
            return BalanceReport(
                plan=planned,
                outcome=outcome.then(Outcome(operation=outcome.operation, interrupted=True)),
            )
        wanted = _request(move.choice.vm, (move.target.host,), planned.wanted)
        choice, moved = leave_for_any(context, move.choice.vm, wanted)
        outcome = outcome.then(moved)
        if choice.move is None or not moved.done:
            refused = choice if choice.move is None else None
            return BalanceReport(plan=planned, outcome=outcome, refused=refused)
    return BalanceReport(plan=planned, outcome=outcome)


def _choice(
    context: EngineContext, view: LedgerView, vm: VmRecord, wanted: DrainRequest
) -> DrainTarget:
    if not wanted.to:
        return DrainTarget(vm, why="every other host would be hot with it, or takes no VM")
    return choose_target(context, view, vm, wanted)


def _request(vm: VmRecord, to: tuple[str, ...], wanted: BalanceRequest) -> DrainRequest:
    return DrainRequest(host=vm.host, to=to, cold=wanted.cold, with_users=wanted.with_users)

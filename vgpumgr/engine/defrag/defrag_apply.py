"""`defrag plan` and `defrag apply`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.defrag.defrag_plan import DefragPlan, DefragRequest, find
from vgpumgr.engine.migration import moves_within_host
from vgpumgr.engine.migration import vm_migrate as moving
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.defrag import DefragMoves, LogoffMove, MoveMode, VmMove
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.operation import MIGRATE, RESEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragReport:
    """The plan and its result.

    ``done`` are the moves that were carried out, ``waiting`` the moves that `serve` makes when a
    user has logged off. ``error`` ended the work before the last move.
    """

    plan: DefragPlan
    outcome: Outcome
    done: tuple[VmMove, ...] = ()
    waiting: tuple[VmMove, ...] = ()
    error: VgpumgrError | None = None


def plan(context: EngineContext, wanted: DefragRequest) -> tuple[DefragPlan, tuple[str, ...]]:
    """Probe, and say which moves would do; nothing is changed. A line per host left out."""
    unread = context.refresh_all()
    return find(context, wanted), unread


def apply(context: EngineContext, planned: DefragPlan) -> DefragReport:
    """Move one VM after the other to the very place that was planned for it.

    The first move that is refused or fails ends it: every VM is where it was or where it should
    be, and planning anew goes on from there.
    """
    found = planned.found
    moves = found.moves if isinstance(found, DefragMoves) else ()
    waiting = tuple(move for move in moves if move.way.how is MoveMode.LOGOFF)
    if waiting:
        context.ledger.await_logoff([_waiting(context, move, planned) for move in waiting])
    now = [move for move in moves if move.way.how is not MoveMode.LOGOFF]
    made = _make(context, planned, now)
    return replace(made, waiting=waiting)


def _waiting(context: EngineContext, move: VmMove, planned: DefragPlan) -> LogoffMove:
    goal = planned.wanted.goal
    return LogoffMove(
        id=context.new_uuid(),
        vm_id=context.ledger.vm(move.vm).id,
        vm=move.vm,
        user=move.user,
        host=move.target.host,
        leaves=tuple(dict.fromkeys(part.gpu for part in move.source.assignments)),
        takes=tuple(dict.fromkeys(part.gpu for part in move.target.assignments)),
        why=goal.words if goal is not None else "reduce fragmentation",
        asked_at=context.clock.now(),
    )


def _make(context: EngineContext, planned: DefragPlan, moves: Sequence[VmMove]) -> DefragReport:
    outcome, done = Outcome(), list[VmMove]()
    for move in moves:
        if context.stop.is_set():
            outcome = outcome.then(Outcome(operation=outcome.operation, interrupted=True))
            break
        try:
            moved = carry_out(context, move, with_users=planned.wanted.with_users)
        except VgpumgrError as error:
            return DefragReport(plan=planned, outcome=outcome, done=tuple(done), error=error)
        outcome = outcome.then(moved)
        if not moved.done:
            break
        done.append(move)
    return DefragReport(plan=planned, outcome=outcome, done=tuple(done))


def carry_out(context: EngineContext, move: VmMove, *, with_users: bool = False) -> Outcome:
    """One move, to exactly the planned place. UsersAtWork where it would cut off a user that logged
    on meanwhile, unless ``with_users``.
    """
    if move.within:
        return moves_within_host.move_within_host(
            context, move.vm, move.target, with_users=with_users
        )
    how = moving.MoveManner(
        cold=move.way.stops,
        with_users=with_users,
        seat=move.target,
    )
    return moving.migrate(context, move.vm, move.target.host, how)


def resume(context: EngineContext) -> Outcome:
    """End interrupted moves, of this process and of others."""
    names = {vm.name: vm.spec for vm in context.ledger.vms() if vm.moving_to is not None}
    return operation_lifecycle.finish_leftovers(context, names, {MIGRATE, RESEAT})

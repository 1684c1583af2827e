"""Moves that wait until a user has logged off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from vgpumgr.engine.desktops.user_sessions import at_work
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration import vm_migrate as moving
from vgpumgr.engine.migration.move_plan_maker import wanted
from vgpumgr.engine.migration.moves_within_host import closed, move_within_host
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome, VmOutcome
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.errors import (
    Interrupted,
    LedgerError,
    NoPlacement,
    NotFound,
    UsersAtWork,
    VgpumgrError,
)
from vgpumgr.model.placement import Placed
from vgpumgr.model.pool import PoolKind
from vgpumgr.model.vm import VmRecord, VmState

HAS_LEFT, MADE_ANEW = "it was moved", "it was recreated on another GPU"
KEPT = "it was recreated, but no other GPU was free"


@dataclass(slots=True)
class MoveCycleReport:
    """The result of a cycle of moves that wait for log-off: ended moves with their results, and
    refusals by the move's id.
    """

    ended: list[tuple[LogoffMove, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    outcomes: list[VmOutcome] = field(default_factory=list)


def cancel(context: EngineContext, vm: str) -> LogoffMove:
    """Let a VM's move wait no more; NotFound where none waits."""
    for each in context.ledger.logoff_moves():
        if each.vm == vm and context.ledger.end_logoff_move(each.id, "cancelled"):
            return each
    raise NotFound(f"no move of {vm} waits for a logoff", next="vgpumgr defrag list")


def step(context: EngineContext, ready: Callable[[str], bool] = lambda _: True) -> MoveCycleReport:
    """One cycle: moves of VMs that left their GPU are ended, VMs without a user at work are moved.
    An interrupted move is resumed as any operation; its row ends when the VM is seen to have left.
    """
    worked = MoveCycleReport()
    moves = context.ledger.logoff_moves()
    if not moves or context.ledger.frozen() is not None:
        return worked
    reading = _Reading.of(context)
    for each in moves:
        if context.stop.is_set():
            break
        if outcome := reading.ending(each):
            if context.ledger.end_logoff_move(each.id, outcome):
                worked.ended.append((each, outcome))
        elif ready(each.id) and reading.is_free(each):
            _carry_out(context, each, worked)
            reading = _Reading.of(context)  # that took a while
    return worked


def _carry_out(context: EngineContext, each: LogoffMove, worked: MoveCycleReport) -> None:
    try:
        vm = context.ledger.vm(each.vm)
        if vm.host == each.host:
            done = _within(context, each)
        else:
            how = moving.MoveManner(cold=True, seat=_seat(context, vm, each))
            done = moving.migrate(context, each.vm, each.host, how)
    except (LedgerError, Interrupted):
        raise
    except UsersAtWork:
        return  # somebody was faster: it waits for the next logoff
    except VgpumgrError as error:
        worked.refused[each.id] = f"{each.vm}: {error.message}" + f": {error.why}" * bool(error.why)
        return
    worked.outcomes += done.vms
    if done.done and context.ledger.end_logoff_move(each.id, HAS_LEFT):
        worked.ended.append((each, HAS_LEFT))


def _within(context: EngineContext, each: LogoffMove) -> Outcome:
    """To the GPUs that were planned, or where they are not free any more, to any others."""
    try:
        return move_within_host(
            context, each.vm, leaves={*_others(context.view(), each), *each.leaves}
        )
    except NoPlacement:
        return move_within_host(context, each.vm, leaves=each.leaves)


def _seat(context: EngineContext, vm: VmRecord, each: LogoffMove) -> Placed | None:
    """The place on another host; None: any."""
    view = context.view()
    held = [allocation for allocation in view.allocations if allocation.vm_id == vm.id]
    rest = replace(view, vms=tuple(one for one in view.vms if one.id != vm.id))
    request = wanted(view, vm.spec, held, each.host, live=False)
    [found] = context.place(closed(build_fleet(rest), _others(view, each)), [request])
    return found if isinstance(found, Placed) else None


def _others(view: LedgerView, each: LogoffMove) -> frozenset[str]:
    """The GPUs of its host that were not planned."""
    here = {gpu.id for gpu in view.gpus if gpu.host == each.host}
    return frozenset(here - {*each.takes})


@dataclass(frozen=True, slots=True)
class _Reading:
    """VMs with their places, their users at work, and their operations."""

    view: LedgerView
    vms: dict[str, VmRecord]
    rows: dict[str, DesktopRecord]
    floating: frozenset[str]
    users: frozenset[str]
    busy: frozenset[str]

    @classmethod
    def of(cls, context: EngineContext) -> _Reading:
        view, ledger = context.view(), context.ledger
        return cls(
            view=view,
            vms={vm.id: vm for vm in view.vms},
            rows={row.name: row for row in ledger.desktops()},
            floating=frozenset(
                pool.id for pool in ledger.pools() if pool.spec.kind is PoolKind.FLOATING
            ),
            users=frozenset(at_work(ledger, view)),
            busy=operation_lifecycle.worked_on(ledger),
        )

    def ending(self, each: LogoffMove) -> str:
        """The result of a move that need not wait any longer; empty for one that waits on."""
        vm = self.vms.get(each.vm_id)
        if vm is None:
            return self._remade(each)
        if vm.id in self.busy or vm.moving_to is not None:
            return ""
        here = {held.gpu for held in self.view.allocations if held.vm_id == vm.id}
        return "" if here & {*each.leaves} else HAS_LEFT

    def _remade(self, each: LogoffMove) -> str:
        """Whether a floating desktop's VM was recreated after its user left."""
        row = self.rows.get(each.vm)
        if row is not None and row.vm_id not in self.vms:
            return ""  # it is being made
        here = {held.gpu for held in self.view.allocations if row and held.vm_id == row.vm_id}
        return KEPT if here & {*each.leaves} else MADE_ANEW

    def is_free(self, each: LogoffMove) -> bool:
        """Whether no user is at work on the VM, no operation works on it, and its pool is not
        recreating it.
        """
        vm, row = self.vms.get(each.vm_id), self.rows.get(each.vm)
        if (
            vm is None
            or vm.state is not VmState.ACTIVE
            or vm.id in self.users
            or vm.id in self.busy
        ):
            return False
        if row is None or row.vm_id != vm.id:
            return True
        anew = row.pool in self.floating and row.desktop.stained
        return row.doing is None and not anew

"""The cycle of groups of replicas as `serve` takes it: claimed, taken, told."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.desktops.load_history import EVERY_S
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.vms import group_scale
from vgpumgr.engine.vms.group_scale import GroupLoads, ReplicaGroup
from vgpumgr.model.errors import ClaimLost, LedgerError, VgpumgrError
from vgpumgr.model.load_scale import LoadWindow

# No host is called so.
GROUP_THREAD = "groups:"
# Each look reads all VMs: one is made as often as loads are noted. Where there are no groups it is
# made so often, and no sooner after a start: what a group does is looked at for minutes before it
# gets a replica.
LOOK_FOR_GROUPS_S = 30.0


class GroupTask:
    """Takes the cycle, and remembers of what it told."""

    def __init__(self, context: EngineContext, patience: RetryBackoff, emit: Emit) -> None:
        self._context = context
        self._patience = patience
        self._emit = emit
        self._loads = GroupLoads()
        self._told: dict[str, str] = {}
        self._look_at = context.clock.monotonic() + LOOK_FOR_GROUPS_S

    def take(self, lane: CycleThread) -> bool:
        """The whole cycle, unless another controller has it; was anything begun?"""
        context = self._context
        if context.clock.monotonic() < self._look_at:
            return False
        found = group_scale.groups(context.ledger.vms())
        pause_s = EVERY_S if found else LOOK_FOR_GROUPS_S
        self._look_at = context.clock.monotonic() + pause_s
        if not found:
            return False
        windows = self._loads.windows(context, found)
        if context.ledger.frozen() is not None or not context.ledger.claim(GROUP_THREAD):
            return False
        own = replace(context, stop=lane.stop, progress=lambda _: None, tell=lambda _: None)
        try:
            begun = [self._resize(own, each, windows[each.key]) for each in found]
            return any(begun)
        finally:
            context.ledger.release(GROUP_THREAD)

    def _resize(self, context: EngineContext, group: ReplicaGroup, window: LoadWindow) -> bool:
        name = group.scale.group
        lane = f"{GROUP_THREAD}{'/'.join(group.key)}"
        if context.stop.is_set() or not self._patience.ready(lane):
            return False
        try:
            done = group_scale.resize(context, group, window)
        except (ClaimLost, LedgerError):
            raise
        except VgpumgrError as error:
            self._patience.failed(lane)
            self._tell(name, f"{error.message}: {error.why}" if error.why else error.message)
            return False
        self._patience.done(lane)
        self._told.pop(name, None)
        if done is None:
            return False
        self._tell_done(group, done)
        return bool(done.vms)

    def _tell_done(self, group: ReplicaGroup, done: Outcome) -> None:
        name = group.scale.group
        found = group_scale.groups(self._context.ledger.vms())
        there = sum(len(each.members) for each in found if each.key == group.key)
        verbs = ", ".join(f"{each.vm} {each.verb}" for each in done.vms)
        text = f"{name} has {there} replicas, by its load: {verbs}"
        self._emit(ControllerEvent(kind=EventKind.GROUP_SCALED, subject=name, text=text))

    def _tell(self, name: str, why: str) -> None:
        """Once, until it goes well again."""
        if self._told.get(name) != why:
            self._told[name] = why
            text = f"{name} has not as many replicas as its load asks for: {why}"
            next = f"vgpumgr explain {name}-01"
            kind = EventKind.GROUP_WAITS
            self._emit(ControllerEvent(kind=kind, subject=name, text=text, next=next))

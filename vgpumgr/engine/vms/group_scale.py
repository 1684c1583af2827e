"""Groups of replicas that follow their load: who is in each, what it asks for, more or fewer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from vgpumgr.engine.desktops.load_history import GroupLoad, LoadHistory
from vgpumgr.engine.migration.users_at_work import logged_in
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.vms import vm_apply, vm_deletion
from vgpumgr.model.load_scale import GroupScale, LoadWindow, MeasuredLoads
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

GroupKey = tuple[str, str]
"""Its tenant, its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """The replicas of one document, by their numbers; the first says what they are like."""

    scale: GroupScale
    members: tuple[VmRecord, ...]

    @property
    def key(self) -> GroupKey:
        """Its tenant and name."""
        return self.members[0].spec.tenant, self.scale.group

    def load(self, loads: MeasuredLoads) -> GroupLoad:
        """What the replicas that are to run do."""
        running = [vm for vm in self.members if vm.running]
        return GroupLoad(members=[loads.vms.get(vm.id) for vm in running])

    def wanted(self, window: LoadWindow) -> int:
        """How many there are to be: a replica that a person deleted comes back by load alone."""
        have = len(self.members)
        return min(max(window.wanted(have), min(have, self.scale.least)), self.scale.most)

    def more(self, count: int, taken: Collection[str]) -> list[VmSpec]:
        """Specs of that number more, with the lowest free numbers."""
        names = map(self.scale.name, range(1, self.scale.most + 1))
        free = [name for name in names if name not in taken][:count]
        return [replace(self.members[0].spec, name=name) for name in free]


def groups(vms: Iterable[VmRecord]) -> list[ReplicaGroup]:
    """All groups; a VM that is being deleted is in none, nor is one of another name."""
    found: dict[GroupKey, list[VmRecord]] = {}
    for vm in vms:
        scale = vm.spec.scale
        if scale is not None and scale.number(vm.name) and vm.state is not VmState.DELETING:
            found.setdefault((vm.spec.tenant, scale.group), []).append(vm)
    made = []
    for members in found.values():
        members.sort(key=lambda vm: (len(vm.name), vm.name))
        if (scale := members[0].spec.scale) is not None:
            made.append(ReplicaGroup(scale=scale, members=tuple(members)))
    return made


class GroupLoads:
    """The notes of this process, by group, as a pool's are kept."""

    def __init__(self) -> None:
        self._notes: dict[GroupKey, LoadHistory] = {}

    def windows(
        self, context: EngineContext, there: Iterable[ReplicaGroup]
    ) -> Mapping[GroupKey, LoadWindow]:
        """Look once more; what each group asks for."""
        now, found = context.clock.now(), list(there)
        self._notes = {each.key: self._notes.get(each.key, LoadHistory()) for each in found}
        due = [each for each in found if self._notes[each.key].is_due(now)]
        loads = context.loads.newest() if due else MeasuredLoads()
        for each in due:
            self._notes[each.key].add(each.scale.policy, each.load(loads), now)
        return {each.key: self._notes[each.key].window(each.scale.policy, now) for each in found}


def resize(context: EngineContext, group: ReplicaGroup, window: LoadWindow) -> Outcome | None:
    """Make or delete what the load asks for; None where nothing is to be done. What does not fit is
    left out, unless nothing fits: NoPlacement.
    """
    missing = group.wanted(window) - len(group.members)
    if missing > 0:
        taken = {vm.name for vm in context.ledger.vms()}
        specs = group.more(missing, taken)
        return _made(context, specs) if specs else None
    if missing < 0 and (names := _unused(context, group, -missing)):
        return vm_deletion.delete(context, names, keep_disks=False, force=True)
    return None


def _made(context: EngineContext, specs: list[VmSpec]) -> Outcome:
    return vm_apply.apply(context, specs, partial=True, restart=False)[1]


def _unused(context: EngineContext, group: ReplicaGroup, count: int) -> list[str]:
    """The replicas to delete, the last first: none with users, and none on a host that does not
    answer.
    """
    silent = {host.name for host in context.ledger.hosts() if host.last_error or host.at_rest}
    able = [vm for vm in reversed(group.members) if vm.host not in silent]
    used = logged_in(context, [vm for vm in able if vm.running and vm.spec.agent])
    return [vm.name for vm in able if vm.name not in used][:count]

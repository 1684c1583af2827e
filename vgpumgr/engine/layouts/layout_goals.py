"""The layout that each GPU is meant to have, and the layouts of GPUs as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from vgpumgr import layout
from vgpumgr.engine.inventory import host_supply
from vgpumgr.engine.inventory.gpu_usage import HostContents
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.reservation.vm_creation import made_for_vms
from vgpumgr.engine.steps.layout_steps import ChangePart, KeepLayout
from vgpumgr.engine.steps.step import from_record
from vgpumgr.model import formats
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuFacts, GpuRecord, GpuState
from vgpumgr.model.host import ClaimFacts, HostRecord
from vgpumgr.model.layout import (
    GpuChange,
    GpuLayout,
    KeptLayout,
    LayoutRule,
    LayoutSpec,
    PartChange,
)
from vgpumgr.model.operation import LAYOUT, TaskRecord
from vgpumgr.model.power import PowerCap


def target_gpus(view: LedgerView, specs: Sequence[LayoutSpec] | None) -> frozenset[str]:
    """The GPUs that these layouts are for, of hosts that could be read."""
    hosts, unread = {gpu.id: gpu.host for gpu in view.gpus}, unread_hosts(view)
    return frozenset(gpu for gpu in goals_of(view, specs) if hosts[gpu] not in unread)


def held_goal(goal: GpuLayout, cap: PowerCap | None) -> GpuLayout:
    """The goal of a GPU that the controller holds: what it declares, and never above the cap."""
    if cap is None:
        return goal
    limit = cap.limit_w
    if limit is not None and goal.power_limit:
        limit = min(limit, goal.power_limit)
    return replace(
        goal,
        power_limit=goal.power_limit if limit is None else limit,
        locked_clocks=cap.clocks if cap.clocks else goal.locked_clocks,
    )


def goals_of(
    view: LedgerView, specs: Sequence[LayoutSpec] | None
) -> dict[str, tuple[str, GpuLayout]]:
    """The goal of every GPU that the layouts mean; a GPU that is gone from its host has none.

    Parts that a layout does not name stay as the last applied layout declared them.
    """
    there = {gpu.id: gpu for gpu in view.gpus if gpu.state is not GpuState.MISSING}
    known = {each.gpu: (each.layout, each.goal) for each in view.layouts if each.gpu in there}
    if specs is None:
        return {gpu: known[gpu] for gpu in there if gpu in known}
    goals: dict[str, tuple[str, GpuLayout]] = {}
    for spec in specs:
        for host in _hosts_of(view, spec):
            gpus = [gpu for gpu in there.values() if gpu.host == host.name]
            for gpu, goal in layout.goals(spec, host, gpus).items():
                goals[gpu] = (spec.name, goal)
    made = made_for_vms(view)
    for gpu in goals.keys() & known.keys():
        name, goal = goals[gpu]
        _, before = known[gpu]
        seen = there[gpu].facts
        goals[gpu] = (name, layout.still_declared(seen, goal, before, made.get(gpu, frozenset())))
    return goals


def hosts_meant(view: LedgerView, specs: Sequence[LayoutSpec] | None) -> frozenset[str]:
    """The hosts that the layouts are for, whatever GPUs are there."""
    if specs is None:
        known = {record.gpu for record in view.layouts}
        return frozenset(gpu.host for gpu in view.gpus if gpu.id in known)
    return frozenset(host.name for spec in specs for host in _hosts_of(view, spec))


def missing(view: LedgerView) -> list[GpuRecord]:
    """The GPUs that have a layout and are gone from their host."""
    known = {record.gpu for record in view.layouts}
    return [gpu for gpu in view.gpus if gpu.id in known and gpu.state is GpuState.MISSING]


def _hosts_of(view: LedgerView, spec: LayoutSpec) -> Iterator[HostRecord]:
    require_known(view, spec.hosts)
    for host in view.hosts:
        named = host.name in spec.hosts
        labelled = bool(spec.host_labels) and all(
            host.labels.get(key) == value for key, value in spec.host_labels.items()
        )
        if named or labelled:
            yield host


def require_known(view: LedgerView, names: Sequence[str]) -> None:
    """NotFound for a host that is not enrolled."""
    known = [host.name for host in view.hosts]
    for name in names:
        if name not in known:
            raise NotFound(
                f"there is no host {name}",
                why=f"enrolled: {', '.join(known) or 'none'}",
                next="vgpumgr host list",
            )


def unread_hosts(view: LedgerView) -> dict[str, str]:
    """Hosts whose last facts are out of date, and why: nothing follows from such facts."""
    found = {host.name: host_supply.unread(host) for host in view.hosts}
    return {name: why for name, why in found.items() if why}


def whole_goal(view: LedgerView, gpu: GpuRecord, goal: GpuLayout) -> GpuLayout:
    """The goal itself, unless a change was cut, given up or refused half-way."""
    cut = next((each for each in view.layouts if each.gpu == gpu.id and not each.settled), None)
    tasks = {
        task.operation: task for task in view.cut if task.verb == LAYOUT and task.vm_id == gpu.id
    }
    if cut is None or cut.operation not in tasks:
        return goal
    return layout.resumed_goal(gpu.facts, goal, cut.goal, _changes(tasks[cut.operation]))


def _changes(task: TaskRecord) -> list[PartChange]:
    work = map(from_record, task.steps)
    return [layout.from_plain(step.change) for step in work if isinstance(step, ChangePart)]


NOT_KEPT = "not kept on the host for its next boot"

_NOT_DECLARED = ("kind", "gpu")


def layout_to_keep(
    gpu: GpuRecord,
    goal: tuple[str, GpuLayout],
    changes: Sequence[PartChange],
    contents: HostContents,
    made_for_vms: frozenset[int],
) -> KeptLayout | None:
    """The layout that the host must keep before these changes; None: it keeps it already."""
    name, wanted = goal
    after = reduce(layout.apply_change, changes, gpu.facts)
    keep = layout.to_keep(after, wanted, made_for_vms)
    claim = _claim(gpu, contents)
    if claim is None or (claim.fleet, claim.allocation, claim.vm) != (contents.fleet, gpu.id, name):
        return keep
    there = {part: value for part, value in claim.wanted.items() if part not in _NOT_DECLARED}
    return None if there == layout.kept_parts(keep) else keep


def stranger(gpu: GpuRecord, contents: HostContents) -> str:
    """Another fleet that has a layout on this GPU; empty without one."""
    claim = _claim(gpu, contents)
    return claim.fleet if claim is not None and claim.fleet != contents.fleet else ""


def step(change: GpuChange, keep: KeptLayout, generation: int) -> KeepLayout:
    """The step that has it written down, under the GPU's generation."""
    return KeepLayout(
        device=change.device,
        gpu=change.gpu,
        generation=generation,
        layout=change.layout,
        parts=layout.kept_parts(keep),
    )


def _claim(gpu: GpuRecord, contents: HostContents) -> ClaimFacts | None:
    unit = formats.layout_claim(gpu.facts.device)
    return next((each for each in contents.facts.claims if each.unit == unit), None)


def export(view: LedgerView, hosts: Sequence[str]) -> tuple[LayoutSpec, ...]:
    """How the GPUs of these hosts (all without names) are partitioned now, one Layout per host."""
    require_known(view, hosts)
    made = made_for_vms(view)
    found = []
    for host in view.hosts:
        if hosts and host.name not in hosts:
            continue
        gpus = [gpu for gpu in view.gpus if gpu.host == host.name and _is_there(gpu)]
        rules = [
            LayoutRule(
                layout=layout.export(_without(gpu.facts, made.get(gpu.id, frozenset()))),
                devices=(gpu.facts.device,),
            )
            for gpu in gpus
        ]
        rules = [rule for rule in rules if rule.layout != GpuLayout()]
        if rules:
            found.append(LayoutSpec(name=host.name, hosts=(host.name,), rules=tuple(rules)))
    return tuple(found)


def _is_there(gpu: GpuRecord) -> bool:
    return gpu.facts.address is not None and gpu.state is not GpuState.MISSING


def _without(gpu: GpuFacts, starts: frozenset[int]) -> GpuFacts:
    """The facts less the GPU instances that were created for VMs."""
    if gpu.mig is None or gpu.mig.instances is None:
        return gpu
    left = tuple(each for each in gpu.mig.instances if each.start not in starts)
    return replace(gpu, mig=replace(gpu.mig, instances=left))

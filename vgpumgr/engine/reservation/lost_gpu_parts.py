"""VMs that do not get back their GPU parts: which and why, and the refusal to start these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from vgpumgr import layout
from vgpumgr.engine.inventory.gpu_supply import lost_usages
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuHealth, GpuRecord, GpuState
from vgpumgr.model.supply import Usage
from vgpumgr.model.vm import Allocation, VmRecord


def displaced(view: LedgerView, vms: Collection[VmRecord]) -> dict[str, str]:
    """VMs (by name) that do not get back what they had of their GPUs, and why: it was given back,
    the GPU is quarantined or ill, or not partitioned as it was. What could not be read says
    nothing.
    """
    known = {gpu.id: gpu for gpu in view.gpus}
    held: dict[str, list[str]] = {}
    for each in view.allocations:
        held.setdefault(each.vm_id, []).append(each.gpu)
    unmet = {usage.vm for _, usage, _ in _unmet(view, [vm.name for vm in vms])}
    found = {}
    for vm in vms:
        mine = held.get(vm.id, [])
        broken = (_broken(known[id_]) for id_ in mine if id_ in known)
        why = next(filter(None, broken), "")
        if len(mine) < sum(each.count for each in vm.spec.gpus):
            why = "its GPU parts were released"
        elif not why and vm.name in unmet:
            why = "its GPU is not partitioned as it was"
        if why:
            found[vm.name] = why
    return found


def _broken(gpu: GpuRecord) -> str:
    name = f"{gpu.facts.model} {gpu.facts.device}"
    if gpu.state is GpuState.QUARANTINED:
        return ": ".join(filter(None, [f"{name} is quarantined", gpu.state_why]))
    if gpu.facts.health is GpuHealth.LOST:
        return f"{name} fell off the bus"
    return f"{name} is {gpu.facts.health}" if gpu.facts.unfit else ""


def require_whole(view: LedgerView, vms: Collection[VmRecord]) -> None:
    """Conflict when the GPU parts of one of these VMs were released: it would start without."""
    held = Counter(each.vm_id for each in view.allocations)
    for vm in vms:
        wanted = sum(each.count for each in vm.spec.gpus)
        if held[vm.id] < wanted:
            raise Conflict(
                f"{vm.name} cannot start: its GPU parts were released",
                why=f"it asks for {wanted} and holds {held[vm.id]}: nothing of it was left on "
                f"{vm.host}",
                next=f"vgpumgr vm delete {vm.name}, then apply its file again",
            )


def require_partitioned(view: LedgerView, names: Collection[str]) -> None:
    """Conflict when the lost part of one of these VMs could not be made as its GPU is now."""
    found = list(_unmet(view, names))
    if not found:
        return
    lost = {usage.vm for _, usage, _ in found}
    waiting = [name for name in names if name in lost]
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    lines = dict.fromkeys(
        f"{gpu.host}: {gpu.facts.model} {gpu.facts.device}: {', '.join(lacks)}"
        for gpu, _, lacks in found
    )
    raise Conflict(
        f"{waiting[0]}{more} cannot start: the GPU is not partitioned as it was",
        why="; ".join(lines),
        next=_way_back(view, [gpu for gpu, _, _ in found]),
    )


def _unmet(
    view: LedgerView, names: Collection[str]
) -> Iterator[tuple[GpuRecord, Usage, tuple[str, ...]]]:
    facts = {host.name: host.facts for host in view.hosts if host.facts and not host.last_error}
    layouts = {record.gpu: record for record in view.layouts}
    held: dict[str, list[Allocation]] = {}
    for each in view.allocations:
        if each.vm in names:
            held.setdefault(each.gpu, []).append(each)
    for gpu in view.gpus:
        if gpu.id not in held or gpu.host not in facts:
            continue
        host, layout_now = facts[gpu.host], layouts.get(gpu.id)
        for usage in lost_usages(gpu.facts, host, held[gpu.id], layout_now):
            if lacks := layout.lacks(gpu.facts, usage):
                yield gpu, usage, lacks


def _way_back(view: LedgerView, gpus: list[GpuRecord]) -> str:
    """The layout that was applied last says how it was; without one the user must."""
    known = {record.gpu for record in view.layouts}
    if all(gpu.id in known for gpu in gpus):
        return "vgpumgr layout apply, then the same command again"
    return "vgpumgr layout apply -f FILE with a Layout that brings this back"

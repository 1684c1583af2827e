"""VMs whose host lost the partitioning that their GPU parts need: refused, with the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from vgpumgr import layout
from vgpumgr.engine.supply import contexts, gpu_supply
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.placement import Usage
from vgpumgr.model.vm import VmRecord


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
    unread = {host.name for host in view.hosts if host.last_error}
    seen = contexts(view)
    holding = {each.gpu for each in view.allocations if each.vm in names}
    for gpu in view.gpus:
        if gpu.id not in holding or gpu.host in unread or gpu.host not in seen:
            continue
        for usage in gpu_supply(gpu, seen[gpu.host]).usages:
            lacks = layout.lacks(gpu.facts, usage) if usage.vm in names else ()
            if lacks:
                yield gpu, usage, lacks


def _way_back(view: LedgerView, gpus: list[GpuRecord]) -> str:
    """The layout that was applied last says how it was; without one the user must."""
    known = {record.gpu for record in view.layouts}
    if all(gpu.id in known for gpu in gpus):
        return "vgpumgr layout apply, then the same command again"
    return "vgpumgr layout apply -f FILE with a Layout that brings this back"

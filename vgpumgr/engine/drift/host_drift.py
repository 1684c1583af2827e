"""Drift of a host itself: GPUs, layouts, volumes, the helper, a reinstallation, interrupted
operations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpumgr.engine.drift.host_comparison import ComparedHost, OperationsInProgress
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.rollback_detection import forgotten_allocations, reason
from vgpumgr.engine.layouts import layout_plan
from vgpumgr.helper import VERSION
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import GpuHealth, GpuRecord, GpuState
from vgpumgr.model.layout import GpuChange
from vgpumgr.model.operation import LAYOUT, OF_HOSTS, OF_IMAGES, TaskRecord
from vgpumgr.model.vm import VmRecord


def operation_drifts(work: OperationsInProgress, hosts: Collection[str]) -> Iterator[Drift]:
    """A drift for each VM or GPU whose task has not ended."""
    for task in work.interrupted:
        if task.host in hosts:
            yield _drift(task)


def _drift(task: TaskRecord) -> Drift:
    layout = task.verb == LAYOUT
    command = "vgpumgr layout apply" if layout else f"vgpumgr operation resume {task.operation[:8]}"
    return Drift(
        kind=DriftKind.UNFINISHED,
        host=task.host,
        subject=f"operation {task.operation[:8]}",
        text=f"{task.verb} of {task.vm} was interrupted",
        next=command,
        gpu=task.vm_id if layout else "",
        vm="" if layout or task.verb in OF_HOSTS | OF_IMAGES else task.vm,
        wanted="ended",
        found=str(task.state),
    )


def reinstallation_drifts(side: ComparedHost) -> Iterator[Drift]:
    """One line for the host; what it lost is named VM by VM beside it."""
    gone = forgotten_allocations(side.facts, side.held, side.fleet)
    if gone:
        vms = sorted({each.vm for each in gone})
        yield Drift(
            kind=DriftKind.REINSTALLED,
            host=side.host,
            subject=side.host,
            text=f"{side.host}: {reason(gone)}",
            wanted=counted(len(gone), "claim"),
            found="none, and epoch 0",
            next=f"vgpumgr vm start {vms[0]} recreates a VM there if its disks are still there, "
            f"vgpumgr vm delete removes it for good; then vgpumgr host uncordon {side.host}",
        )


def helper_drifts(side: ComparedHost) -> Iterator[Drift]:
    """One where their versions differ; a version that is not told is none."""
    found = side.facts.versions.helper
    if found in {"", VERSION}:
        return
    newer = found.isdecimal() and int(found) > int(VERSION)
    upgrade = f"vgpumgr host upgrade {side.host}"
    yield Drift(
        kind=DriftKind.HELPER,
        host=side.host,
        subject="helper",
        text=f"the helper on {side.host} is version {found}, this vgpumgr brings {VERSION}",
        wanted=VERSION,
        found=found,
        next="use the vgpumgr that installed it, or a newer one" if newer else upgrade,
    )


def volume_drifts(side: ComparedHost) -> Iterator[Drift]:
    """Every missing volume, and every VM whose storage pool is missing."""
    if side.unread("libvirt"):
        return
    active = {pool.name: pool.active for pool in side.facts.pools}
    for vm in side.vms:
        for pool in dict.fromkeys(pool for pool, _ in vm.volumes):
            if not active.get(pool):
                yield _pool(side, vm, pool, defined=pool in active)
        for pool, name in vm.every_volume:
            if side.seen.volumes.get((pool, name)) is False:
                yield _volume(side, vm, pool, name)


def _volume(side: ComparedHost, vm: VmRecord, pool: str, name: str) -> Drift:
    return Drift(
        kind=DriftKind.VOLUME_MISSING,
        host=side.host,
        vm=vm.name,
        subject=f"{pool}/{name}",
        text=f"volume {name} of {vm.name} is gone from storage pool {pool}",
        wanted="there",
        found="missing",
        next=f"bring the file back, or vgpumgr vm delete {vm.name} --force and apply again",
    )


def _pool(side: ComparedHost, vm: VmRecord, pool: str, *, defined: bool) -> Drift:
    return Drift(
        kind=DriftKind.POOL_INACTIVE if defined else DriftKind.POOL_MISSING,
        host=side.host,
        vm=vm.name,
        subject=pool,
        text=f"storage pool {pool}, where disks of {vm.name} lie, "
        + ("is not active" if defined else "is not defined"),
        wanted="active",
        found="inactive" if defined else "missing",
        next=f"on {side.host}: virsh {'pool-start' if defined else 'pool-define'} "
        + (pool if defined else f"the XML of {pool}"),
    )


def gpu_drifts(
    view: LedgerView, hosts: Collection[str], touched: Collection[str]
) -> Iterator[Drift]:
    """Drift of GPUs of these hosts; ``touched`` are ids of GPUs that a layout is changing."""
    for gpu in view.gpus:
        if gpu.host in hosts and gpu.state is GpuState.MISSING:
            yield _gone(gpu, DriftKind.GPU_MISSING, "is gone from its host", "missing")
        elif gpu.host in hosts and gpu.facts.health is GpuHealth.LOST:
            yield _gone(gpu, DriftKind.GPU_LOST, "fell off the bus", "lost")
        elif gpu.host in hosts and gpu.state is GpuState.QUARANTINED:
            yield _quarantined(gpu)
    for change in layout_plan.plan(view, None).gpus:
        if change.host in hosts and change.gpu not in touched:
            yield from _layout(change)


def _gone(gpu: GpuRecord, kind: DriftKind, text: str, found: str) -> Drift:
    return Drift(
        kind=kind,
        host=gpu.host,
        gpu=gpu.id,
        subject=gpu.facts.device,
        text=f"{gpu.facts.model} {gpu.facts.device} {text}",
        wanted="there",
        found=found,
        next=f"vgpumgr gpu show {gpu.id}",
    )


def _quarantined(gpu: GpuRecord) -> Drift:
    return Drift(
        kind=DriftKind.GPU_QUARANTINED,
        host=gpu.host,
        gpu=gpu.id,
        subject=gpu.facts.device,
        text=f"{gpu.facts.model} {gpu.facts.device} is quarantined: {gpu.state_why}",
        wanted="in use",
        found="quarantined",
        next=f"vgpumgr heal --lift {gpu.id}   (when it is repaired)",
    )


def _layout(change: GpuChange) -> Iterator[Drift]:
    """A refusal alone, without a difference, is no drift: nothing is known to differ."""
    refused = f"   (refused now: {change.refused})" if change.refused else ""
    for difference in change.differences:
        yield Drift(
            kind=DriftKind.LAYOUT,
            host=change.host,
            gpu=change.gpu,
            subject=change.device,
            text=f"{change.model} {change.device} differs from layout {change.layout}: "
            f"{difference}",
            wanted=f"layout {change.layout}",
            found=difference,
            next=f"vgpumgr layout apply{refused}",
        )


def conflicting(host: str, error: VgpumgrError) -> Drift:
    """A GPU whose evidence (UUID, serial) contradicts what the ledger knows of its place."""
    return Drift(
        kind=DriftKind.GPU_EVIDENCE,
        host=host,
        subject="GPU evidence",
        text=f"{error.message}{f': {error.why}' if error.why else ''}; "
        "nothing else of this host was compared",
        wanted="the GPUs that were there",
        found="other evidence",
        next=error.next or f"vgpumgr host probe {host}",
    )

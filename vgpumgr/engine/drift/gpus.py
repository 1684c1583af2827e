"""GPUs: there, on the bus, and partitioned as their layouts declare."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from vgpumgr.engine import layouts
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu import GpuHealth, GpuRecord, GpuState
from vgpumgr.model.layout import GpuChange


def drifts(view: LedgerView, hosts: Collection[str], touched: Collection[str]) -> Iterator[Drift]:
    """GPUs of these hosts; ``touched`` are ids of those that a layout is changing."""
    for gpu in view.gpus:
        if gpu.host in hosts and gpu.state is GpuState.MISSING:
            yield _gone(gpu, DriftKind.GPU_MISSING, "is gone from its host", "missing")
        elif gpu.host in hosts and gpu.facts.health is GpuHealth.LOST:
            yield _gone(gpu, DriftKind.GPU_LOST, "fell off the bus", "lost")
        elif gpu.host in hosts and gpu.state is GpuState.QUARANTINED:
            yield _quarantined(gpu)
    for change in layouts.plan(view, None).gpus:
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

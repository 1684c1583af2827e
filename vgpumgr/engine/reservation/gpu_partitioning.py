"""GPUs that are partitioned for the VMs placed on them: the steps, and the records of layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce

from vgpumgr import layout
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.automatic_layouts import layouts_of
from vgpumgr.engine.steps.layout_steps import KeepLayout, PartitionGpu
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.layout import AUTOMATIC, GpuLayout, LayoutRecord, PartChange
from vgpumgr.model.placement import Placed


def partition_steps(placed: Placed, view: LedgerView) -> tuple[PartitionGpu, ...]:
    """One per GPU that the VM needs partitioned otherwise; they come before all else."""
    wanted = layouts_of([placed])
    had = {record.gpu: record for record in view.layouts}
    return tuple(
        _step(gpu, wanted[gpu.id], had.get(gpu.id)) for gpu in view.gpus if gpu.id in wanted
    )


def layout_records(
    placed: Iterable[Placed], view: LedgerView, operation: str
) -> tuple[LayoutRecord, ...]:
    """The layouts that these VMs need, not settled before one of them is made."""
    wanted = layouts_of(placed)
    return tuple(
        LayoutRecord(
            gpu=gpu.id,
            host=gpu.host,
            layout=AUTOMATIC,
            goal=wanted[gpu.id],
            operation=operation,
        )
        for gpu in view.gpus
        if gpu.id in wanted
    )


def _step(gpu: GpuRecord, goal: GpuLayout, was: LayoutRecord | None) -> PartitionGpu:
    _, changes = layout.plan(gpu.facts, goal, (), ())
    after = reduce(layout.apply_change, changes, gpu.facts)
    keep = KeepLayout(
        device=gpu.facts.device,
        gpu=gpu.id,
        generation=gpu.generation + 1,
        layout=AUTOMATIC,
        parts=_parts(after, goal),
    )
    return PartitionGpu(
        keep=keep,
        changes=tuple(map(layout.to_plain, changes)),
        back=tuple(map(layout.to_plain, _back(after, gpu.facts))),
        vfs=tuple(vf.address for vf in after.vfs),
        kept=replace(keep, parts=_parts(gpu.facts, was.goal)) if was else None,
        was=was,
    )


def _parts(gpu: GpuFacts, goal: GpuLayout) -> Mapping[str, object]:
    """What its host keeps of a layout, once the GPU is so."""
    return layout.kept_parts(layout.to_keep(gpu, goal, ()))


def _back(after: GpuFacts, before: GpuFacts) -> tuple[PartChange, ...]:
    """What leads back, the scheduler aside where its driver offers no choice; nothing where no
    layout leads back.
    """
    was = layout.export(before)
    for goal in (was, replace(was, scheduler=None)):
        with suppress(layout.LayoutRefused):
            return layout.plan(after, goal, (), ())[1]
    return ()

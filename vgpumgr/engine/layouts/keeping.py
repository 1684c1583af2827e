"""Does a GPU's host keep the GPU's layout for its next boot, when no controller is there to ask?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from vgpumgr import layout
from vgpumgr.engine.steps import KeepLayout
from vgpumgr.engine.supply import HostContext
from vgpumgr.model import claim_units
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.layout import GpuChange, GpuLayout, KeptLayout, PartChange

NOT_KEPT = "not kept on the host for its next boot"

_NOT_DECLARED = ("kind", "gpu")


def due(
    gpu: GpuRecord,
    goal: tuple[str, GpuLayout],
    changes: Sequence[PartChange],
    context: HostContext,
    made_for_vms: frozenset[int],
) -> KeptLayout | None:
    """What the host has to write down before these changes; None: it did already."""
    name, wanted = goal
    after = reduce(layout.apply_change, changes, gpu.facts)
    keep = layout.to_keep(after, wanted, made_for_vms)
    claim = _claim(gpu, context)
    if claim is None or (claim.fleet, claim.allocation, claim.vm) != (context.fleet, gpu.id, name):
        return keep
    there = {part: value for part, value in claim.wanted.items() if part not in _NOT_DECLARED}
    return None if there == layout.kept_parts(keep) else keep


def stranger(gpu: GpuRecord, context: HostContext) -> str:
    """Another fleet that has a layout on this GPU; empty without one."""
    claim = _claim(gpu, context)
    return claim.fleet if claim is not None and claim.fleet != context.fleet else ""


def step(change: GpuChange, keep: KeptLayout, generation: int) -> KeepLayout:
    """The step that has it written down, under the GPU's generation."""
    return KeepLayout(
        device=change.device,
        gpu=change.gpu,
        generation=generation,
        layout=change.layout,
        parts=layout.kept_parts(keep),
    )


def _claim(gpu: GpuRecord, context: HostContext) -> ClaimFacts | None:
    unit = claim_units.layout(gpu.facts.device)
    return next((each for each in context.facts.claims if each.unit == unit), None)

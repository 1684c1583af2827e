"""What a host keeps of its GPU's layout, to bring it back after a boot with nobody to ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vgpumgr.layout import declared, vfs
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, KeptInstance, KeptLayout


def to_keep(gpu: GpuFacts, goal: GpuLayout, made_for_vms: Collection[int]) -> KeptLayout:
    """The goal made plain: counts and places as this GPU has them once it is as declared."""
    return KeptLayout(
        mig=goal.mig,
        vfs=None if goal.vfs is None else vfs.count(gpu, goal.vfs),
        mixed_size=goal.mixed_size,
        scheduler=goal.scheduler,
        instances=declared.places(gpu, goal, made_for_vms),
    )


def kept_parts(found: KeptLayout) -> Mapping[str, object]:
    """The declared parts as the helper's ``layout_claim`` takes them and its claim has them."""
    plain = {
        "mig": found.mig,
        "vfs": found.vfs,
        "mixed_size": found.mixed_size,
        "scheduler": None if found.scheduler is None else str(found.scheduler),
        "instances": None if found.instances is None else [*map(_instance, found.instances)],
    }
    return {name: value for name, value in plain.items() if value is not None}


def _instance(each: KeptInstance) -> dict[str, object]:
    numbers = {"profile_id": each.profile_id, "start": each.start, "size": each.size}
    return {**numbers, "compute": list(each.compute)}

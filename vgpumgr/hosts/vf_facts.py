"""Virtual functions of a probe, and what vGPUs can be made on them."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.hosts.answer import Answer
from vgpumgr.model.gpu import MdevType, VendorVgpu, VfFacts


def virtual_functions(sriov: Answer, parents: Mapping[str, Answer]) -> tuple[VfFacts, ...]:
    """The VFs that are on, in the order of their numbers; ``parents`` are mdev parents by name."""
    found = (_function(each, parents) for each in sriov.objects("vfs"))
    return tuple(sorted(found, key=lambda vf: vf.number))


def mdev_types(parent: Answer | None) -> tuple[MdevType, ...]:
    """The types of an mdev parent; none where the device is no parent."""
    if parent is None:
        return ()
    return tuple(
        MdevType(
            type_id=each.text("id"),
            name=each.text("name"),
            available=each.maybe_number("available"),
            device_api=each.text("device_api", "vfio-pci"),
            description=each.text("description"),
        )
        for each in parent.objects("types")
    )


def _function(vf: Answer, parents: Mapping[str, Answer]) -> VfFacts:
    return VfFacts(
        number=vf.number("number"),
        address=vf.text("address"),
        driver=vf.maybe_text("driver"),
        iommu_group=vf.maybe_number("iommu_group"),
        reset_methods=vf.texts("reset_methods"),
        mdev_types=mdev_types(parents.get(vf.text("address"))),
        vendor=_vendor(vf.maybe_child("vgpu")),
    )


def _vendor(vgpu: Answer | None) -> VendorVgpu | None:
    if vgpu is None:
        return None
    return VendorVgpu(
        creatable=vgpu.numbers("creatable") if vgpu.has("creatable") else None,
        type_id=vgpu.maybe_number("type"),
        instance=vgpu.maybe_number("instance"),
        placement_id=vgpu.maybe_number("placement_id"),
    )

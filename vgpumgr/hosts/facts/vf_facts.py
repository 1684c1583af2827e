"""Virtual functions of a probe, and what vGPUs can be made on them."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.model.gpu import MdevType, VendorVgpu, VfFacts

# PCI allows 65,535 VFs; the boards of the catalogue have up to 64. Types are a few dozen.
MOST_VFS = 1024
MOST_GROUP = 2**31 - 1
MOST_RESETS = 16
MOST_TYPE_ID = 2**31 - 1
_MOST_TYPES = 512
_MOST_AVAILABLE = 1024


class TypeLists:
    """The types of mdev parents. The VFs of a GPU list the same ones, which come once."""

    def __init__(self, parents: Mapping[str, Answer]) -> None:
        self._parents = parents
        self._read: dict[str, tuple[MdevType, ...]] = {}

    def of(self, device: str) -> tuple[MdevType, ...]:
        """Those of one device; none where it is no parent."""
        parent = self._parents.get(device)
        if parent is None:
            return ()
        name = parent.text("types_of", device)
        if name not in self._read:
            if name not in self._parents:
                raise parent.nonsense("types_of", name, "a parent that is listed")
            self._read[name] = _types(self._parents[name])
        return self._read[name]


def virtual_functions(sriov: Answer, types: TypeLists) -> tuple[VfFacts, ...]:
    """The VFs that are on, in the order of their numbers."""
    found = tuple(_function(each, types) for each in sriov.objects("vfs", most=MOST_VFS))
    sriov.once("vfs", (vf.number for vf in found))
    return tuple(sorted(found, key=lambda vf: vf.number))


def _types(parent: Answer) -> tuple[MdevType, ...]:
    found = tuple(_type(each) for each in parent.objects("types", most=_MOST_TYPES))
    parent.once("types", (each.type_id for each in found))
    return found


def _type(each: Answer) -> MdevType:
    return MdevType(
        type_id=each.text("id"),
        name=each.text("name"),
        available=each.maybe_number("available", most=_MOST_AVAILABLE),
        device_api=each.text("device_api", "vfio-pci"),
        description=each.text("description"),
    )


def _function(vf: Answer, types: TypeLists) -> VfFacts:
    return VfFacts(
        number=vf.number("number", most=MOST_VFS - 1),
        address=vf.address("address"),
        driver=vf.maybe_text("driver"),
        iommu_group=vf.maybe_number("iommu_group", most=MOST_GROUP),
        reset_methods=vf.texts("reset_methods", most=MOST_RESETS),
        mdev_types=types.of(vf.text("address")),
        vendor=_vendor(vf.maybe_child("vgpu")),
    )


def _vendor(vgpu: Answer | None) -> VendorVgpu | None:
    if vgpu is None:
        return None
    listed = vgpu.numbers("creatable", count=_MOST_TYPES, most=MOST_TYPE_ID)
    return VendorVgpu(
        creatable=listed if vgpu.has("creatable") else None,
        type_id=vgpu.maybe_number("type", most=MOST_TYPE_ID),
        instance=vgpu.maybe_number("instance", most=MOST_TYPE_ID),
        placement_id=vgpu.maybe_number("placement_id", most=MOST_TYPE_ID),
    )

"""Virtual functions of a probe, and what vGPUs can be made on them."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.gpu import MdevType, VendorVgpu, VfFacts


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
                raise OutcomeUnknown(
                    "the helper's answer cannot be understood",
                    why=f"parents: the types of {device} are those of {name}, which is not listed",
                    next="vgpumgr doctor",
                )
            self._read[name] = tuple(_type(each) for each in self._parents[name].objects("types"))
        return self._read[name]


def virtual_functions(sriov: Answer, types: TypeLists) -> tuple[VfFacts, ...]:
    """The VFs that are on, in the order of their numbers."""
    found = (_function(each, types) for each in sriov.objects("vfs"))
    return tuple(sorted(found, key=lambda vf: vf.number))


def _type(each: Answer) -> MdevType:
    return MdevType(
        type_id=each.text("id"),
        name=each.text("name"),
        available=each.maybe_number("available"),
        device_api=each.text("device_api", "vfio-pci"),
        description=each.text("description"),
    )


def _function(vf: Answer, types: TypeLists) -> VfFacts:
    return VfFacts(
        number=vf.number("number"),
        address=vf.text("address"),
        driver=vf.maybe_text("driver"),
        iommu_group=vf.maybe_number("iommu_group"),
        reset_methods=vf.texts("reset_methods"),
        mdev_types=types.of(vf.text("address")),
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

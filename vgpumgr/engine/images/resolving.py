"""``cad@12`` in a disk → the volume of that image, and its format as it was declared. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from vgpumgr.model.errors import Conflict
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.vm import DiskSpec, VmSpec


def resolved(
    specs: Iterable[VmSpec], images: Iterable[ImageRecord], known: Collection[str] = ()
) -> tuple[VmSpec, ...]:
    """The same VMs with volumes for images of the ledger; any other name is a volume's already.

    Conflict for a retired image, unless the VM is among those ``known``: it has its disk.
    """
    by_reference = {each.reference: each for each in images}
    return tuple(_spec(spec, by_reference, spec.name in known) for spec in specs)


def _spec(spec: VmSpec, images: Mapping[str, ImageRecord], is_known: bool) -> VmSpec:
    if not any(disk.image in images for disk in spec.disks):
        return spec
    disks = tuple(_disk(spec, disk, images.get(disk.image or ""), is_known) for disk in spec.disks)
    return replace(spec, disks=disks)


def _disk(spec: VmSpec, disk: DiskSpec, image: ImageRecord | None, is_known: bool) -> DiskSpec:
    if image is None:
        return disk
    if image.retired_at is not None and not is_known:
        raise Conflict(
            f"image {image.reference} is retired",
            why=f"{spec.name} would be created from it",
            next="vgpumgr image list   (lists other versions)",
        )
    return replace(disk, image=image.volume, image_format=image.format)

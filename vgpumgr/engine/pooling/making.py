"""What a desktop's VM asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr.engine.images.resolving import resolved
from vgpumgr.model.image import ImageRecord
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.vm import VmRecord, VmSpec


def desktop_spec(pool: PoolSpec, name: str, image: str, images: Iterable[ImageRecord]) -> VmSpec:
    """The VM of a desktop of that name, its first disk over ``image`` (``name@version``): the
    ledger's, or a volume ``name@version.qcow2`` that lies on the hosts. Conflict: it is retired.
    """
    known = {each.reference: each for each in images}
    system, *more = pool.desktop.disks
    system = replace(system, image=image if image in known else f"{image}.qcow2")
    made = replace(pool.desktop, name=name, disks=(system, *more), queue=None)
    [found] = resolved([made], known.values())
    return found


def image_of(vm: VmRecord, images: Iterable[ImageRecord]) -> str:
    """What a desktop's first disk lies over, as :func:`desktop_spec` was told."""
    volume = vm.spec.disks[0].image or ""
    known = {each.volume: each.reference for each in images}
    return known.get(volume, volume.removesuffix(".qcow2"))

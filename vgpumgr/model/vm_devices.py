"""What a VM's request says of its devices: disks, CDs, NICs, and the seed of its first boot."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.domain import PLAIN_NIC, UNTUNED_DISK, DiskTuning, NicTuning
from vgpumgr.model.nic import SriovNic


class DiskMode(StrEnum):
    """How a disk's volume comes to be."""

    FRESH = "fresh"
    COPY = "copy"
    OVERLAY = "overlay"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpec:
    """One disk. ``size_bytes`` 0 means the image's own size (copy and overlay).

    ``restored`` is the backup (its storage pool and volume) that a restored VM's disk was copied
    from when it was made, whatever its ``mode``: no file says it, and it is laid over nothing.
    """

    pool: str = "default"
    size_bytes: int = 0
    mode: DiskMode = DiskMode.FRESH
    image: str | None = None
    image_format: str = "qcow2"
    format: str = "qcow2"
    tuning: DiskTuning = UNTUNED_DISK
    restored: tuple[str, str] | None = None

    @property
    def is_overlay(self) -> bool:
        """Is it laid over its image?"""
        return self.mode is DiskMode.OVERLAY and self.restored is None

    @property
    def source(self) -> tuple[str, str] | None:
        """The storage pool and volume that it is made from; None for a fresh one."""
        if self.restored is not None:
            return self.restored
        return (self.pool, self.image) if self.image else None

    @property
    def source_format(self) -> str:
        """The declared format of that: backups are qcow2."""
        return self.image_format if self.restored is None else "qcow2"


MOST_CDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CdSpec:
    """A CD in a drive of the VM: an image of the ledger, or a volume that lies in the pool. With
    ``boot`` the guest is started from it before its disks are tried, else after them.
    """

    image: str
    pool: str = "default"
    boot: bool = False

    @property
    def as_disk(self) -> DiskSpec:
        """What has to be on the host: a file of plain bytes."""
        return DiskSpec(pool=self.pool, mode=DiskMode.COPY, image=self.image, image_format="raw")


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    """A NIC on a host bridge or a libvirt network, or a VF of a NIC of the host's: exactly one of
    the three. An empty ``mac`` is one that follows from the VM's id.
    """

    bridge: str | None = None
    network: str | None = None
    mac: str = ""
    tuning: NicTuning = PLAIN_NIC
    sriov: SriovNic | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudInit:
    """Text of a NoCloud seed. None leaves the file out (meta-data is always made). With
    ``template`` names in the text stand for what the VM is (:mod:`vgpumgr.model.formats`).
    ``digest`` stands for text that is kept no longer (:meth:`withheld`); empty where it is there.
    ``instance_id`` is the one that the guest of a restored VM knows; empty: that of the VM.
    """

    user_data: str | None = None
    network_config: str | None = None
    pool: str = "default"
    template: bool = False
    digest: str = ""
    instance_id: str = ""

    def withheld(self) -> CloudInit:
        """The same with a digest for its text: what may be kept for longer than the VM."""
        if self.user_data is None and self.network_config is None:
            return self
        digest = seed_digest(self.user_data, self.network_config)
        return CloudInit(pool=self.pool, template=self.template, digest=digest)


def seed_digest(user_data: str | None, network_config: str | None) -> str:
    """What stands for a seed's text where the text may not be kept: ``sha256:…``."""
    text = json.dumps([user_data, network_config])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

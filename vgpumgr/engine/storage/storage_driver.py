"""The life cycle of volumes that every kind of storage pool fulfils."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.host import StoragePool
from vgpumgr.model.vm import VmRecord

VolumeName = tuple[str, str]
"""A volume's storage pool and its name there."""


class Ability(StrEnum):
    """What a kind of pool can do with the volume of a disk."""

    SNAPSHOT = "snapshot"
    RUNNING_SNAPSHOT = "snapshot of a VM that runs"
    THIN_CLONE = "thin clone"
    WHOLE_VOLUMES = "reading and writing of whole volumes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDisk:
    """A disk of a VM where it lies: its volume, the path of that on the host, its declared format,
    its size in bytes, and what the guest calls it (``vda``; empty for a volume that is no disk of
    the VM now). ``below`` is the path of what it is laid over, empty for nothing.
    """

    volume: VolumeName
    path: str
    format: str
    size_bytes: int
    guest_name: str
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenDisk:
    """A disk whose present content is kept: ``kept`` is the volume that has it and is written to no
    more, ``goes_on`` the volume that the VM writes to from now on, which ``make`` makes.
    """

    kept: VolumeName
    goes_on: VolumeName
    make: VolumePlan


class StorageDriver(Protocol):
    """How the volumes of one kind of pool are made, grown, kept as they are, and laid over each
    other. Any kind deletes through libvirt.
    """

    @property
    def abilities(self) -> Collection[Ability]:
        """What it can."""

    @property
    def formats(self) -> Collection[str]:
        """The formats that its volumes may have."""

    @property
    def layered(self) -> bool:
        """Does a volume name in a header of its own what it is laid over?"""

    @property
    def grown_by_guest(self) -> bool:
        """Can QEMU make a volume larger that it has open? Otherwise it is made so first."""

    def create(self, plan: VolumePlan, pool: StoragePool) -> Step:
        """Make a volume; undone, it is deleted."""

    def grow(self, volume: VolumeName, capacity_bytes: int, pool: StoragePool) -> Step:
        """Make a volume of a VM that is off larger."""

    def refusal(self, disk: PlacedDisk) -> str:
        """Why a disk there cannot be kept as it is; empty where it can."""

    def freeze(self, disk: PlacedDisk, name: str) -> FrozenDisk:
        """Keep what is on the disk; ``name`` is that of no volume of its pool."""

    def over(self, kept: PlacedDisk, name: str) -> VolumePlan:
        """A new volume of that name in the same pool, which reads as ``kept`` until it is written
        to, and has ``size_bytes`` of it.
        """

    def dissolve(self, kept: PlacedDisk, over: PlacedDisk, vm: VmRecord) -> tuple[Step, ...]:
        """Have what is laid over a kept volume of the VM read as before without it: the kept one
        can then be deleted. The content of neither changes.
        """

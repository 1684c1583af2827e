"""The parents of mdevs: NVIDIA's functions, and the kernel's sample drivers."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.sim.boards.mdev_types import SampleParent, SupportedMdevType
from vgpumgr.sim.drivers.vgpu_files import Carrier, Users, mdev_files
from vgpumgr.sim.linux.file_tree import File, refusal
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu


@dataclass(frozen=True, slots=True, eq=False)
class NvidiaParent:
    """An NVIDIA function that carries mdevs: the PF up to Turing, a VF since Ampere (§1, §3)."""

    name: str
    path: str
    types: tuple[SupportedMdevType, ...]
    gpu: NvidiaGpu
    users: Users
    on_vf: bool
    driver: ClassVar[str] = "nvidia-vgpu-vfio"

    def available(self, wanted: SupportedMdevType, made: list[SupportedMdevType]) -> int:
        """A PF counts down all types of one size together; a VF has 1 while the type fits.

        Once there is an mdev on a VF, all its types have 0 (behaviour §3).
        """
        if not self.on_vf:
            return self.gpu.remaining(wanted.number)
        creatable, number = () if made else self.gpu.creatable(self.name), wanted.number
        return int(any(each.id == number for each in creatable))

    def make(self, uuid: str, wanted: SupportedMdevType, made: list[SupportedMdevType]) -> None:
        """EIO where the resource manager refuses, and for a second one on a VF."""
        if self.on_vf and made:
            raise refusal(errno.EIO)
        self._carrier(uuid).create(wanted.number)

    def unmake(self, uuid: str) -> None:
        """EPERM while a VM holds it."""
        self._carrier(uuid).destroy()

    def attributes(self, uuid: str) -> Mapping[str, File]:
        """The ``nvidia/`` folder."""
        return mdev_files(self._carrier(uuid))

    def _carrier(self, uuid: str) -> Carrier:
        return Carrier(self.gpu, uuid, self.users)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A sample driver of the kernel: types of any size share one budget, ENOSPC when it is out.

    Removing a held mdev blocks in a kernel from 5.14 on until the VM lets go; here it is EBUSY.
    """

    parent: SampleParent
    in_use: Callable[[str], bool]

    @property
    def name(self) -> str:
        """``mbochs`` or ``mtty``."""
        return self.parent.name

    @property
    def path(self) -> str:
        """A virtual device's folder."""
        return f"/sys/devices/virtual/{self.name}/{self.name}"

    @property
    def driver(self) -> str:
        """The sample's own driver."""
        return self.name

    @property
    def types(self) -> tuple[SupportedMdevType, ...]:
        """The sample's types."""
        return self.parent.types

    def available(self, wanted: SupportedMdevType, made: list[SupportedMdevType]) -> int:
        """How many of the type the rest of the budget holds."""
        return (self.parent.budget - sum(each.size for each in made)) // wanted.size

    def make(self, uuid: str, wanted: SupportedMdevType, made: list[SupportedMdevType]) -> None:
        """ENOSPC when the budget is out."""
        if not self.available(wanted, made):
            raise refusal(errno.ENOSPC)

    def unmake(self, uuid: str) -> None:
        """EBUSY while a VM holds it."""
        if self.in_use(uuid):
            raise refusal(errno.EBUSY)

    def attributes(self, uuid: str) -> Mapping[str, File]:
        """None of its own."""
        return {}

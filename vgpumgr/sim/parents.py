"""The vendors' rules for their mdevs."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.sim.board import SampleParent, VgpuType


@dataclass(frozen=True, slots=True, eq=False)
class NvidiaPf:
    """A time-sliced NVIDIA GPU whose PF is the parent (up to Turing).

    The first vGPU fixes the framebuffer size: types of another size then have no instance
    available and are refused with EIO, types of the same size count down together (captured on
    R535; beyond the maximum the resource manager refuses in the same way).
    """

    name: str
    path: str
    types: tuple[VgpuType, ...]
    driver: ClassVar[str] = "nvidia-vgpu-vfio"
    busy_errno: ClassVar[int] = errno.EPERM

    def available(self, wanted: VgpuType, made: list[VgpuType]) -> int:
        """The type's maximum less what exists; 0 for another size than the first vGPU's."""
        if any(each.size != wanted.size for each in made):
            return 0
        return max(0, wanted.most - len(made))

    def refuses(self, wanted: VgpuType, made: list[VgpuType]) -> int:
        """EIO is all that user space sees of the resource manager's reasons."""
        return 0 if self.available(wanted, made) else errno.EIO


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A sample driver of the kernel: types of any size share one budget, ENOSPC when it is out.

    Removing a held mdev blocks in a kernel from 5.14 on until the VM lets go; here it is EBUSY.
    """

    parent: SampleParent
    busy_errno: ClassVar[int] = errno.EBUSY

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
    def types(self) -> tuple[VgpuType, ...]:
        """The sample's types."""
        return self.parent.types

    def available(self, wanted: VgpuType, made: list[VgpuType]) -> int:
        """How many of the type the rest of the budget holds."""
        return (self.parent.budget - sum(each.size for each in made)) // wanted.size

    def refuses(self, wanted: VgpuType, made: list[VgpuType]) -> int:
        """ENOSPC when the budget is out."""
        return 0 if self.available(wanted, made) else errno.ENOSPC

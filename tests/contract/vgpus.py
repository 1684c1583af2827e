"""NVIDIA vGPUs made by hand, in the three shapes that kernels give them (§1)."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tests.contract.bench import PCI, Bench, Machine, new_uuid
from tests.contract.mdev_bench import DEVICES, create_file, remove_file
from tests.contract.nvml import Nvml
from vgpumgr.model.domain import Hostdev, MdevHostdev, PciHostdev

# Proxmox tries as long.
_PLUGIN_ENDS_S = 10


@dataclass(frozen=True)
class Vgpu:
    """A vGPU: its carrier, the folder of the driver's files on it, and what a VM gets."""

    carrier: str
    files: str
    hostdev: Hostdev


class Carriers(Protocol):
    """What carries vGPUs on a GPU. OSError is the driver's refusal."""

    def make(self, type_id: int) -> Vgpu:
        """One more vGPU, on a carrier that has none."""

    def drop(self, vgpu: Vgpu) -> None:
        """Take it away."""


def take_away(machine: Machine, carriers: Carriers, vgpu: Vgpu) -> None:
    """Drop a vGPU; the plugin of a VM that has just stopped may keep it for a while (EBUSY)."""
    for _ in range(_PLUGIN_ENDS_S):
        try:
            return carriers.drop(vgpu)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        machine.wait(1.0)
    return carriers.drop(vgpu)


def vf_file(vf: str, name: str) -> str:
    """A file of NVIDIA's driver on a VF."""
    return f"{PCI}/devices/{vf}/nvidia/{name}"


def mdev_on(machine: Machine, parent: str, type_id: int) -> Vgpu:
    """An mdev on that parent."""
    device = new_uuid()
    machine.write(create_file(parent, f"nvidia-{type_id}"), device)
    return Vgpu(device, f"{DEVICES}/{device}/nvidia", MdevHostdev(uuid=device))


@dataclass(frozen=True)
class MdevsOnPf:
    """Up to Turing."""

    machine: Machine
    pf: str

    @property
    def parents(self) -> list[str]:
        """Where ``mdev_supported_types`` are."""
        return [self.pf]

    def make(self, type_id: int) -> Vgpu:
        return mdev_on(self.machine, self.pf, type_id)

    def drop(self, vgpu: Vgpu) -> None:
        self.machine.write(remove_file(vgpu.carrier), "1")


@dataclass(frozen=True)
class MdevsOnVfs:
    """From Ampere on, below kernel 6.8."""

    machine: Machine
    vfs: Sequence[str]
    used: dict[str, str] = field(default_factory=dict)

    @property
    def parents(self) -> list[str]:
        """Where ``mdev_supported_types`` are."""
        return list(self.vfs)

    def make(self, type_id: int) -> Vgpu:
        vf = next(each for each in self.vfs if each not in self.used.values())
        vgpu = mdev_on(self.machine, vf, type_id)
        self.used[vgpu.carrier] = vf
        return vgpu

    def drop(self, vgpu: Vgpu) -> None:
        self.machine.write(remove_file(vgpu.carrier), "1")
        del self.used[vgpu.carrier]


@dataclass(frozen=True)
class TypedVfs:
    """From Ampere on, with the vendor-specific VFIO framework."""

    machine: Machine
    vfs: Sequence[str]
    used: set[str] = field(default_factory=set)

    def make(self, type_id: int) -> Vgpu:
        vf = next(each for each in self.vfs if each not in self.used)
        self.machine.write(vf_file(vf, "current_vgpu_type"), str(type_id))
        self.used.add(vf)
        return Vgpu(vf, f"{PCI}/devices/{vf}/nvidia", PciHostdev(address=vf))

    def drop(self, vgpu: Vgpu) -> None:
        self.machine.write(vf_file(vgpu.carrier, "current_vgpu_type"), "0")
        self.used.discard(vgpu.carrier)


@dataclass(frozen=True, kw_only=True)
class VgpuBench(Bench):
    """``gpu`` carries vGPUs on ``carriers``; it is empty and splits its time evenly.

    ``small`` and ``sibling`` are types of one size and different series, ``large`` is another
    size; ``most_large`` of it fill the GPU.
    """

    gpu: str
    carriers: Carriers
    nvml: Nvml
    small: int
    sibling: int
    large: int
    most_large: int

    @contextmanager
    def made(self, *types: int) -> Iterator[tuple[Vgpu, ...]]:
        """vGPUs of these types, in this order; taken away afterwards."""
        there: list[Vgpu] = []
        try:
            for each in types:
                there.append(self.carriers.make(each))
            yield tuple(there)
        finally:
            for vgpu in reversed(there):
                take_away(self.machine, self.carriers, vgpu)


@dataclass(frozen=True, kw_only=True)
class MdevVgpuBench(VgpuBench):
    """Its vGPUs are mdevs."""

    carriers: MdevsOnPf | MdevsOnVfs


@dataclass(frozen=True, kw_only=True)
class VfMdevBench(MdevVgpuBench):
    """Its vGPUs are mdevs on VFs."""

    carriers: MdevsOnVfs

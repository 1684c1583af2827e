"""Putting a host's hardware into its kernel: functions, GPUs, SR-IOV, drivers."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, MutableMapping

from vgpumgr import catalog
from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.boards.hardware import Gpu
from vgpumgr.sim.drivers.fabric_manager import FabricManager
from vgpumgr.sim.drivers.plain import I915, Gim, HdAudio, NvidiaUcsi, Xe, Xhci
from vgpumgr.sim.drivers.unlisted import Igb, Igbvf
from vgpumgr.sim.linux.function import Function
from vgpumgr.sim.linux.iommu import IommuGroups
from vgpumgr.sim.linux.pci import Driver
from vgpumgr.sim.linux.sriov import Sriov
from vgpumgr.sim.nvidia.gpu import NvidiaGpu

NVIDIA = "nvidia"


def nvidia_gpus(
    host: SimHost, gpus: tuple[Gpu, ...], durable: MutableMapping[str, str]
) -> dict[str, NvidiaGpu]:
    """The resource manager of every NVIDIA GPU, by PF address."""
    return _managed(host, [gpu for gpu in gpus if gpu.board.driver == NVIDIA], durable)


def unlisted_gpus(
    host: SimHost, gpus: tuple[Gpu, ...], durable: MutableMapping[str, str]
) -> dict[str, NvidiaGpu]:
    """As much for GPUs outside the catalogue whose VFs carry vGPUs."""
    return _managed(
        host, [gpu for gpu in gpus if gpu.board.vgpus and gpu.board.driver != NVIDIA], durable
    )


def _managed(
    host: SimHost, gpus: list[Gpu], durable: MutableMapping[str, str]
) -> dict[str, NvidiaGpu]:
    return {
        gpu.address: NvidiaGpu(
            gpu.board,
            gpu.address,
            seed=_seed(host.name, gpu),
            durable=durable,
            driver=host.versions.driver,
        )
        for gpu in gpus
    }


def functions(gpu: Gpu, groups: IommuGroups, *, iommu: bool) -> list[Function]:
    """The PF and what shares its slot, all in one IOMMU group (behaviour §11)."""
    board = gpu.board
    kinds = [(board.pci_class, board.device), *((s.pci_class, s.device) for s in board.siblings)]
    paths = [gpu.path(number) for number in range(len(kinds))]
    group = groups.add(*paths) if iommu else None
    return [
        Function(
            address=posixpath.basename(path),
            path=path,
            pci_class=pci_class,
            vendor=board.vendor,
            device=device,
            subsystem=board.subsystem,
            numa_node=gpu.numa_node,
            reset_methods="pm bus" if number else board.reset_methods,
            group=group,
            has_vf_bars=bool(board.sriov_total) and not number,
        )
        for number, (path, (pci_class, device)) in enumerate(zip(paths, kinds, strict=True))
    ]


def other_drivers(gpus: tuple[Gpu, ...], sriov: dict[str, Sriov]) -> list[Driver]:
    """All but NVIDIA's and vfio-pci, as far as the hardware has them loaded."""
    counts = {gpu.address: gpu.vfs or 1 for gpu in gpus if gpu.board.driver == "gim"}
    drivers: list[Driver] = [HdAudio(), Xhci(), NvidiaUcsi()]
    if counts:
        drivers.append(Gim(sriov, counts))
    for kind in (Xe, I915):
        devices = frozenset(gpu.board.device for gpu in gpus if gpu.board.driver == kind.name)
        if devices:
            drivers.append(kind(sriov, devices))
    if any(gpu.board.driver == Igb.name for gpu in gpus):
        drivers += [Igb(sriov), Igbvf()]
    return drivers


def fabric_manager(
    host: SimHost, gpus: tuple[Gpu, ...], managers: dict[str, NvidiaGpu], now: Callable[[], float]
) -> FabricManager | None:
    """Fabric Manager in shared mode, where the host has an NVSwitch board."""
    board = catalog.fabric(host.fabric) if host.fabric else None
    if board is None:
        return None
    numbered = {
        gpu.physical_id: managers[gpu.address] for gpu in gpus if gpu.physical_id is not None
    }
    return FabricManager(board, numbered, now)


def _seed(host: str, gpu: Gpu) -> int:
    """The same at every boot, and of no other GPU of the fleet."""
    words = f"{host} {gpu.bus} {gpu.board.key}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")

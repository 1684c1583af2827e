"""What the NVIDIA driver does when domains with vGPUs start and stop."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence

from vgpumgr import catalog
from vgpumgr.model.errors import HostRefused
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.linux.function import Function
from vgpumgr.sim.nvidia.gpu import NvidiaGpu

# A VF that stays on its vendor's driver, with managed='no'.
_VARIANT_DRIVERS_SINCE = (9, 7)

_MOST = catalog.limits().per_vm


def is_vendor_vf(kernel: Kernel, function: Function) -> bool:
    """Is it a VF that carries vGPUs by itself (kernel 6.8 and later)?"""
    gpu = kernel.gpu_of(function.address)
    return gpu is not None and kernel.tree.exists(f"{function.path}/nvidia")


def libvirt_knows_variants(version: str) -> bool:
    """May a function be given to a guest while a variant driver has it?"""
    parts = version.split(".")[:2]
    return all(part.isdigit() for part in parts) and (
        tuple(int(part) for part in parts) >= _VARIANT_DRIVERS_SINCE
    )


def start(kernel: Kernel, devices: Sequence[str], vm: str) -> None:
    """The vGPUs among the devices begin to run, all of them or none: HostRefused."""
    begun: list[str] = []
    groups = list(_by_gpu(kernel, devices))
    _check_together(kernel, vm, groups)
    for gpu, carriers in groups:
        try:
            gpu.start_vm(carriers, vm)
        except OSError as error:
            stop(kernel, begun)
            raise _refused(kernel, vm, carriers[0], error) from error
        begun += carriers


def stop(kernel: Kernel, devices: Sequence[str]) -> None:
    """Their VM is gone; the plugin lives on a little."""
    for gpu, carriers in _by_gpu(kernel, devices):
        gpu.stop_vm(carriers)
        for carrier in carriers:
            kernel.stopped_at[carrier] = kernel.clock.now()


def not_given(kernel: Kernel, device: str, number: int) -> str:
    """What QEMU prints of a device that VFIO does not give; the hint comes whatever the reason."""
    group = kernel.group_of(device)
    return (
        f"vfio {device}: error getting device from group {group}: {os.strerror(number)}\n"
        f"Verify all devices in group {group} are bound to vfio-<bus> or pci-stub and not already "
        "in use"
    )


def _check_together(kernel: Kernel, vm: str, groups: Iterable[tuple[NvidiaGpu, list[str]]]) -> None:
    """Several vGPUs in one VM: 16 at most, of one board and series, of types that may share."""
    made = [(gpu.model, carrier, gpu.vgpu(carrier)) for gpu, names in groups for carrier in names]
    types = [(board, vgpu.type) for board, _, vgpu in made if vgpu is not None]
    kinds = {(board.key, kind.series) for board, kind in types}
    alone = any(not kind.multi_vgpu for _, kind in types)
    if len(types) > 1 and (len(types) > _MOST or len(kinds) > 1 or alone):
        raise _refused(kernel, vm, made[-1][1], OSError(errno.EIO, ""))


def _by_gpu(kernel: Kernel, devices: Sequence[str]) -> Iterable[tuple[NvidiaGpu, list[str]]]:
    found: dict[str, tuple[NvidiaGpu, list[str]]] = {}
    for device in devices:
        gpu = kernel.gpu_of(device)
        if gpu is not None:
            found.setdefault(gpu.address, (gpu, []))[1].append(device)
    return found.values()


def _refused(kernel: Kernel, vm: str, carrier: str, error: OSError) -> HostRefused:
    number = error.errno or errno.EIO
    return HostRefused(
        f"cannot start domain {vm}",
        why=f"internal error: qemu: {not_given(kernel, carrier, number)}",
        errno_name=errno.errorcode[number],
    )

"""``nvidia-smi --gpu-reset -i BUS``: status and texts as drivers of 2023 to 2025 print them."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.sim.drivers.failures import RESET
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.nvidia.gpu import NvidiaGpu

# Status 6 and 15 are NVML's NOT_FOUND and GPU_IS_LOST; a refused reset ends with 255.
_NOT_FOUND, _LOST, _REFUSED = 6, 15, 255


def run(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    """``nvidia-smi ARGS…``: only the reset of one GPU is there."""
    match list(args):
        case ["--gpu-reset" | "-r", "-i", bus]:
            return _reset(kernel, bus)
    return 2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"


def _reset(kernel: Kernel, bus: str) -> tuple[int, str]:
    gpu = _gpu(kernel, bus)
    if gpu is None:
        return _NOT_FOUND, "No devices were found\n"
    name = f"0000{gpu.address}".upper()
    if gpu.lost:
        return _LOST, (
            f"Unable to determine the device handle for GPU{gpu.address}: GPU is lost.  "
            "Reboot the system to recover this GPU\n"
        )
    try:
        if kernel.failures.take(gpu.address, RESET):
            return _REFUSED, _in_use(name)
        gpu.reset()
    except OSError:
        return _REFUSED, _in_use(name)
    kernel.pci.functions[gpu.address].dirty = False
    return 0, f"GPU {name} was successfully reset.\nAll done.\n"


def _gpu(kernel: Kernel, bus: str) -> NvidiaGpu | None:
    """By index or PCI address of any domain width; only what the driver holds."""
    held = [each for each in kernel.nvidia.values() if _is_held(kernel, each)]
    if bus.isdigit():
        return held[int(bus)] if int(bus) < len(held) else None
    domain, _, rest = bus.lower().partition(":")
    wanted = f"{domain[-4:].zfill(4)}:{rest}"
    return next((each for each in held if each.address == wanted), None)


def _is_held(kernel: Kernel, gpu: NvidiaGpu) -> bool:
    return kernel.pci.functions[gpu.address].driver == "nvidia"


def _in_use(name: str) -> str:
    return (
        f"The following GPUs could not be reset:\n  GPU {name}: In use by another client\n\n"
        "1 device is currently being used by one or more other processes (e.g., Fabric Manager, "
        "CUDA application, graphics application such as an X server, or a monitoring application "
        "such as another instance of nvidia-smi). Please first kill all processes using this "
        "device and all compute applications running in the system.\n"
    )

"""The programs of a simulated host, by the name under which the helper runs them.

Status and texts of NVIDIA's are those of drivers of 2023 to 2025.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from vgpumgr.sim.drivers.nvidia_driver import SRIOV_MANAGE
from vgpumgr.sim.linux.file_tree import refusal
from vgpumgr.sim.linux.machine_setup import RESTORE, UNITS, USER
from vgpumgr.sim.linux.sriov_capability import Sriov
from vgpumgr.sim.machine import sriov_nics
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvidia.gpu_health import RESET, UNBIND
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu


def sudo(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    """The rules of the one user there is, in the words of sudo 1.9."""
    host, rules = kernel.host.name, kernel.setup.sudo_rules
    if tuple(args) != ("-n", "-l", "-U", USER):
        return 1, "sudo: a password is required\n"
    if not rules:
        return 0, f"User {USER} is not allowed to run sudo on {host}.\n"
    listed = "".join(f"    {rule}\n" for rule in rules)
    head = f"Matching Defaults entries for {USER} on {host}:\n    env_reset, use_pty\n\n"
    return 0, f"{head}User {USER} may run the following commands on {host}:\n{listed}"


_ABSENT = {"load": "not-found", "enabled": "", "active": "inactive", "result": "success"}
_PROPERTIES = {
    "LoadState": "load",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "Result": "result",
}


def systemctl(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    """Nothing but ``show`` with a list of properties is there."""
    match list(args):
        case ["show", "-pSystemState"]:
            return 0, f"SystemState={'stopping' if kernel.setup.stopping else 'running'}\n"
        case ["show", wanted, *units] if wanted.startswith("-p"):
            names = wanted.removeprefix("-p").split(",")
            return 0, "\n".join(_block(kernel, unit, names) for unit in units)
    return 1, "Unknown command verb.\n"


def _block(kernel: Kernel, unit: str, names: Sequence[str]) -> str:
    there = unit != RESTORE or kernel.tree.exists(f"{UNITS}/{RESTORE}")
    known = kernel.setup.units.get(unit, _ABSENT) if there else _ABSENT
    state: Mapping[str, str] = {**known, "id": unit}
    return "".join(f"{name}={state[_PROPERTIES.get(name, 'id')]}\n" for name in names)


# Status 6 and 15 are NVML's NOT_FOUND and GPU_IS_LOST; a refused reset ends with 255.
_NOT_FOUND, _LOST, _REFUSED = 6, 15, 255


def nvidia_smi(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
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


# ``sriov-manage`` turns on all VFs of a GPU or none (behaviour §4). Texts and exit status as its
# script has them: a GPU without SR-IOV, or whose vGPUs do not live on VFs, is passed over in
# silence with status 0.
PATH = SRIOV_MANAGE

_USAGE = f"""Usage:
    {PATH} <-e|-d> <ssss:bb:dd.f|ALL>
        Enable/disable Virtual functions on the GPU specified by the PCI_ID=ssss:bb:dd.f.
        If 'ALL' is specified in place of PCI_ID, operate on all the nvidia GPUs in the system.

    {PATH} -e <ssss:bb:dd.f|ALL> -r 1
\tReset and rescan the GPU followed by enabling Virtual functions on the GPU.

    {PATH} -h
        Print this help.
"""

Answer = tuple[int, str]
Operation = Callable[[Kernel, str], Answer]


def sriov_manage(kernel: Kernel, args: Sequence[str]) -> Answer:
    """``sriov-manage ARGS…``: exit status and output."""
    match list(args):
        case ["-h"]:
            return 0, _USAGE
        case ["-e", where] | ["-e", where, "-r", "1"]:
            return _each(kernel, where, _enable)
        case ["-d", where]:
            return _each(kernel, where, _disable)
    return 1, _USAGE


def _each(kernel: Kernel, where: str, operation: Operation) -> Answer:
    """One GPU, or all of them until one fails; lspci finds no other: status 1 without a word."""
    wanted = list(kernel.nvidia) if where.lower() == "all" else [where.lower()]
    said = ""
    for address in wanted:
        if address not in kernel.nvidia:
            return 1, said
        status, text = operation(kernel, address)
        said += text
        if status:
            return status, said
    return 0, said


def _enable(kernel: Kernel, address: str) -> Answer:
    sriov = _supported(kernel, address)
    if sriov is None:
        return 0, ""
    if sriov.vfs:
        return 0, f"GPU at {address} already has VFs enabled.\n"
    status, text = _switch(kernel, sriov, sriov.board.sriov_total)
    return status, f"Enabling VFs on {address}\n{text}"


def _disable(kernel: Kernel, address: str) -> Answer:
    sriov = _supported(kernel, address)
    if sriov is None:
        return 0, ""
    if not sriov.vfs:
        return 0, f"GPU at {address} already has VFs disabled.\n"
    status, text = _switch(kernel, sriov, 0)
    return status, f"Disabling VFs on {address}\n{text}"


def _supported(kernel: Kernel, address: str) -> Sriov | None:
    on_vfs = kernel.nvidia[address].board.host_mode == "sriov-vf"
    return kernel.sriov.get(address) if on_vfs else None


def _switch(kernel: Kernel, sriov: Sriov, count: int) -> Answer:
    """The PF leaves its driver and comes back, which is what loses its GPU instances."""
    pf, gpu = sriov.pf, kernel.nvidia[sriov.pf.address]
    if pf.override:
        return 1, f"{PATH}: line 141: echo: write error: No such device\n"
    if not _may_unbind(kernel, sriov):
        return 1, f"Cannot obtain unbindLock for {pf.address}\n"
    _empty(kernel, sriov)
    kernel.pci.unbind(pf)
    if count:
        sriov.enable(count)
    else:
        sriov.disable()
    gpu.vfs_on = bool(count)
    gpu.driver_rebound()
    kernel.pci.probe(pf)
    for vf in sriov.vfs:  # whatever sriov_drivers_autoprobe says: the script binds them
        kernel.pci.probe(vf)
    return 0, ""


def _may_unbind(kernel: Kernel, sriov: Sriov) -> bool:
    """Not while a program or a guest, or the plugin of one that has stopped, has the GPU."""
    gpu, pf = kernel.nvidia[sriov.pf.address], sriov.pf
    users = [pf.address, *(vf.address for vf in sriov.vfs), *(each.carrier for each in gpu.vgpus)]
    return not (
        kernel.failures.take(pf.address, UNBIND)
        or gpu.clients
        or pf.lost
        or any(kernel.in_use(each) or kernel.is_ending(each) for each in users)
    )


def _empty(kernel: Kernel, sriov: Sriov) -> None:
    """The vGPUs on the VFs go, typed VFs and mdevs alike."""
    gpu = kernel.nvidia[sriov.pf.address]
    for vgpu in gpu.vgpus:
        if vgpu.carrier in kernel.mdevs.devices:
            kernel.mdevs.remove(vgpu.carrier)
        else:
            gpu.destroy(vgpu.carrier)


Program = Callable[[Kernel, Sequence[str]], tuple[int, str]]


def run(kernel: Kernel, argv: Sequence[str]) -> tuple[int, str]:
    """Exit status and output; ENOENT where the host has no such program."""
    program = _PROGRAMS.get(argv[0])
    if program is None:
        raise refusal(errno.ENOENT, argv[0])
    return program(kernel, argv[1:])


def _modprobe(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    return kernel.modprobe(args[0])


def _qemu(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    versions = kernel.host.versions
    if not versions.qemu:
        raise refusal(errno.ENOENT, "qemu-system-x86_64")
    if "--version" in args:
        return 0, f"QEMU emulator version {versions.qemu}\n"
    return 0, f"[    0.000000] Linux version {versions.kernel}\n"


def _sriov_manage(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if not kernel.nvidia:
        raise refusal(errno.ENOENT, PATH)
    return sriov_manage(kernel, args)


def _nvidia_smi(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if not kernel.nvidia:
        raise refusal(errno.ENOENT, "nvidia-smi")
    return nvidia_smi(kernel, args)


def _fmpm(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if kernel.fabric is None:
        raise refusal(errno.ENOENT, "fmpm")
    return kernel.fabric.run(args)


def _ip(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    on = [len(kernel.sriov[each.function.address].vfs) for each in kernel.nics]
    return sriov_nics.ip_link(kernel.nics, on, args)


_PROGRAMS: dict[str, Program] = {
    "modprobe": _modprobe,
    "qemu-system-x86_64": _qemu,
    PATH: _sriov_manage,
    "nvidia-smi": _nvidia_smi,
    "fmpm": _fmpm,
    "ip": _ip,
    "sudo": sudo,
    "systemctl": systemctl,
}

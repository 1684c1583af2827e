"""``sriov-manage`` of NVIDIA's host driver: all VFs of a GPU or none (behaviour §4).

Texts and exit status as its script has them: a GPU without SR-IOV, or whose vGPUs do not live on
VFs, is passed over in silence with status 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vgpumgr.sim.drivers.failures import UNBIND
from vgpumgr.sim.drivers.nvidia import SRIOV_MANAGE
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.linux.sriov import Sriov

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


def run(kernel: Kernel, args: Sequence[str]) -> Answer:
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

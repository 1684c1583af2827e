"""Every program there is, by the name it is run under."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.linux.tree import refusal
from vgpumgr.sim.programs import nvidia_smi, sriov_manage, sudo, systemctl

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
        raise refusal(errno.ENOENT, sriov_manage.PATH)
    return sriov_manage.run(kernel, args)


def _nvidia_smi(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if not kernel.nvidia:
        raise refusal(errno.ENOENT, "nvidia-smi")
    return nvidia_smi.run(kernel, args)


def _fmpm(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if kernel.fabric is None:
        raise refusal(errno.ENOENT, "fmpm")
    return kernel.fabric.run(args)


_PROGRAMS: dict[str, Program] = {
    "modprobe": _modprobe,
    "qemu-system-x86_64": _qemu,
    sriov_manage.PATH: _sriov_manage,
    "nvidia-smi": _nvidia_smi,
    "fmpm": _fmpm,
    "sudo": sudo.run,
    "systemctl": systemctl.run,
}

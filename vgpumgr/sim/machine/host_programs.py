"""The programs of a simulated host, by the name under which the helper runs them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from vgpumgr.sim.linux.file_tree import refusal
from vgpumgr.sim.linux.machine_setup import RESTORE, UNITS, USER
from vgpumgr.sim.machine import nvidia_programs
from vgpumgr.sim.machine.kernel import Kernel


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
        raise refusal(errno.ENOENT, nvidia_programs.PATH)
    return nvidia_programs.sriov_manage(kernel, args)


def _nvidia_smi(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if not kernel.nvidia:
        raise refusal(errno.ENOENT, "nvidia-smi")
    return nvidia_programs.nvidia_smi(kernel, args)


def _fmpm(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    if kernel.fabric is None:
        raise refusal(errno.ENOENT, "fmpm")
    return kernel.fabric.run(args)


_PROGRAMS: dict[str, Program] = {
    "modprobe": _modprobe,
    "qemu-system-x86_64": _qemu,
    nvidia_programs.PATH: _sriov_manage,
    "nvidia-smi": _nvidia_smi,
    "fmpm": _fmpm,
    "sudo": sudo,
    "systemctl": systemctl,
}

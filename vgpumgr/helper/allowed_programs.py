"""The closed list of programs that the helper runs, by argv and with a deadline."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Sequence

SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
NVIDIA_SMI = "nvidia-smi"
FMPM = "fmpm"
SUDO = "sudo"
SYSTEMCTL = "systemctl"
QEMU_IMG = "qemu-img"
LVS, LVCREATE, LVEXTEND = "lvs", "lvcreate", "lvextend"
RBD, STAT = "rbd", "stat"
IP = "ip"
ALLOWED = (
    *("modprobe", "qemu-system-x86_64", "/usr/libexec/qemu-kvm"),
    *(SRIOV_MANAGE, NVIDIA_SMI, FMPM, SUDO, SYSTEMCTL, QEMU_IMG),
    *(LVS, LVCREATE, LVEXTEND, RBD, STAT, IP),
)

# fmpm is built from source, so it may lie below /usr/local.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "LC_ALL": "C"}
_TIMED_OUT = 124


def run(argv: Sequence[str], timeout: float) -> tuple[int, str]:
    """Exit status and output, stdout and stderr together; 124 when the deadline cut it.

    OSError: EACCES when the program is not on the list, ENOENT when it is not installed.
    """
    if argv[0] not in ALLOWED or not _may(argv):
        raise OSError(errno.EACCES, "not a program the helper runs", " ".join(argv))
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
            env={**os.environ, **_ENVIRONMENT},
        )
    except subprocess.TimeoutExpired as cut:
        return _TIMED_OUT, _text(cut.output)
    return done.returncode, _text(done.stdout)


def _may(argv: Sequence[str]) -> bool:
    """nvidia-smi only resets one GPU: without ``-i`` it would reset all of them.

    lvcreate makes thin volumes and thin snapshots alone; rbd deletes no image, and a snapshot only
    where libvirt made it for a clone. ip shows an interface, and sets
    trust and spoof check of one VF. sudo and systemctl only tell; qemu-img has an image read as
    before over another file, and never only says that it does (``-u``).
    """
    if argv[0] == NVIDIA_SMI:
        return len(argv) == 4 and tuple(argv[1:3]) == ("--gpu-reset", "-i")
    if argv[0] == QEMU_IMG:
        return tuple(argv[1:2]) == ("rebase",) and "-u" not in argv
    if argv[0] == LVCREATE:
        return "--thin" in argv or "--snapshot" in argv
    if argv[0] == RBD:
        return _rbd_may(argv)
    if argv[0] == IP:
        return _ip_may(tuple(argv[1:]))
    if argv[0] == SUDO:
        return tuple(argv[1:3]) == ("-n", "-l") and (len(argv) == 3 or argv[3:4] == ("-U",))
    return argv[0] != SYSTEMCTL or tuple(argv[1:2]) == ("show",)


def _rbd_may(argv: Sequence[str]) -> bool:
    if "snap" in argv:
        return argv[-2] in {"unprotect", "rm"} and "@libvirt-" in argv[-1]
    return "info" in argv[-4:] or "flatten" in argv[-3:]


def _ip_may(args: Sequence[str]) -> bool:
    if args[:4] == ("-j", "link", "show", "dev"):
        return len(args) == 5
    of_vf = args[:3] == ("link", "set", "dev") and args[4:5] == ("vf",)
    return of_vf and len(args) == 8 and args[6] in {"trust", "spoofchk"}


def _text(output: object) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else ""

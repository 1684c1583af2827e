"""Runs in a namespace host before its daemons: a parent of mediated devices, and a QEMU for it.

There is no kernel behind it. ``emulated.py`` does the kernel's part for the helper, ``qemu.sh``
holds the VFIO groups as QEMU would. libvirt and the helper see the same tree where sysfs has it.

Arguments: the folder of these files, the mdevs that the parent has room for, and ``memlock.c``,
built.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

MS_BIND, MS_MOVE = 0x1000, 0x2000
QEMU, LIBVIRTD = "/usr/bin/qemu-system-x86_64", "/usr/sbin/libvirtd"
PRELOADED = """\
#!/bin/sh
LD_PRELOAD=/run/emulated/memlock.so exec /run/emulated/libvirtd "$@"
"""
OURS = Path("/run/emulated")
# QEMU looks for its modules and firmware beside the folder it is in.
BIN, BESIDE = OURS / "bin", ("lib", "share")
PARENT = Path("/sys/bus/mdev/emulated/mtty")
DEVICES = Path("/sys/bus/mdev/devices")
GROUPS = Path("/sys/kernel/iommu_groups")
TYPE = PARENT / "mdev_supported_types/mtty-1"

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path | str, kind: str = "", flags: int = 0) -> None:
    """mount(2)."""
    names = (source.encode(), str(target).encode(), kind.encode())
    if _libc.mount(*names, ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def room_for(folder: str, name: str) -> None:
    """A folder of sysfs that has one more entry: sysfs itself takes none."""
    mount("tmpfs", "/mnt", "tmpfs")
    for each in os.listdir(folder):
        copy = Path("/mnt", each)
        if Path(folder, each).is_symlink():
            copy.symlink_to(os.readlink(Path(folder, each)))
        else:
            copy.mkdir()
            mount(f"{folder}/{each}", copy, flags=MS_BIND)
    Path("/mnt", name).mkdir()
    mount("/mnt", folder, flags=MS_MOVE)


def before(program: str, real: Path, script: str) -> None:
    """Put a script before a program, which is at ``real`` from now on."""
    real.touch()
    mount(program, real, flags=MS_BIND)
    ours = real.with_suffix(".sh")
    ours.write_text(script)
    ours.chmod(0o755)
    mount(str(ours), program, flags=MS_BIND)


def main() -> None:
    """Lay out the trees, then put our QEMU before the real one, and our libvirtd."""
    given, most = Path(sys.argv[1]), int(sys.argv[2])
    room_for("/sys/bus", "mdev")
    room_for("/sys/class", "mdev_bus")
    mount("tmpfs", GROUPS, "tmpfs")
    for folder in (
        TYPE / "devices",
        DEVICES,
        Path("/dev/vfio"),
        BIN,
        GROUPS / "0",
    ):
        folder.mkdir(parents=True)
    Path("/sys/class/mdev_bus/mtty").symlink_to(PARENT)
    for name, text in (("name", "Emulated"), ("device_api", "vfio-pci"), ("create", "")):
        (TYPE / name).write_text(f"{text}\n")
    (PARENT / "most").write_text(f"{most}\n")
    shutil.copy(given / "emulated.py", OURS)
    Path("/dev/vfio/vfio").touch()
    for name in BESIDE:
        (OURS / name).symlink_to(f"/usr/{name}")
    before(QEMU, BIN / "qemu", (given / "qemu.sh").read_text())
    shutil.copy(sys.argv[3], OURS / "memlock.so")
    before(LIBVIRTD, OURS / "libvirtd", PRELOADED)


if __name__ == "__main__":
    main()

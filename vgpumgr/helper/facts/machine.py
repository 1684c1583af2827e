"""The machine under the GPUs: CPUs, memory, NUMA, huge pages, IOMMU, bridges, versions."""

from __future__ import annotations

import re
from typing import Any

from vgpumgr.helper import allowed_programs, sysfs
from vgpumgr.helper.system import System

QEMU_PROGRAMS = ("qemu-system-x86_64", "/usr/libexec/qemu-kvm")

_NODES = "/sys/devices/system/node"
_NET = "/sys/class/net"
_VERSION_SECONDS = 10.0
_SYSTEMD_SECONDS = 5.0


def hostname(system: System) -> str:
    """The host's own name."""
    return sysfs.text(system, "/proc/sys/kernel/hostname")


def boot_id(system: System) -> str:
    """A random id of this boot."""
    return sysfs.text(system, "/proc/sys/kernel/random/boot_id")


def stopping(system: System) -> bool:
    """Whether systemd is shutting the host down; False where none is there to tell."""
    try:
        _, output = system.run(
            (allowed_programs.SYSTEMCTL, "show", "-pSystemState"), _SYSTEMD_SECONDS
        )
    except FileNotFoundError:
        return False
    return output.strip() == "SystemState=stopping"


def kernel(system: System) -> str:
    """The running kernel's release."""
    return sysfs.text(system, "/proc/sys/kernel/osrelease")


def cpus(system: System) -> int:
    """How many CPUs are online."""
    return len(_cpu_list(sysfs.text(system, "/sys/devices/system/cpu/online")))


def cpu_model(system: System) -> str:
    """The processor's name as its maker writes it; empty where the kernel gives none."""
    text = sysfs.optional_text(system, "/proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model.group(1).strip() if model else ""


def memory_mib(system: System) -> int:
    """All memory, in MiB."""
    return _memory_mib(system.read("/proc/meminfo"))


def hugepage_kib(system: System) -> int | None:
    """The size of a huge page where none is named; None on a kernel without them."""
    size = re.search(r"^Hugepagesize:\s+(\d+) kB", system.read("/proc/meminfo"), re.MULTILINE)
    return int(size.group(1)) if size else None


def iommu(system: System) -> bool:
    """Whether the kernel uses an IOMMU (its software groups of mdevs do not count)."""
    return system.exists("/sys/class/iommu") and bool(system.list("/sys/class/iommu"))


def bridges(system: System) -> list[str]:
    """The host's network bridges."""
    return [name for name in system.list(_NET) if system.exists(f"{_NET}/{name}/bridge")]


def numa(system: System) -> list[dict[str, Any]]:
    """One entry per NUMA node; none on a kernel without NUMA."""
    if not system.exists(_NODES):
        return []
    numbers = sorted(int(name[4:]) for name in system.list(_NODES) if re.match(r"node\d+$", name))
    return [_node(system, number) for number in numbers]


def qemu(system: System) -> tuple[str, str]:
    """QEMU's program and version; FileNotFoundError where there is none."""
    for program in QEMU_PROGRAMS:
        try:
            _, output = system.run((program, "--version"), _VERSION_SECONDS)
        except FileNotFoundError:
            continue
        version = re.search(r"version (\d+(?:\.\d+)+)", output)
        if version is None:
            raise ValueError(f"{program} --version says {output.strip()!r}")
        return program, version.group(1)
    raise FileNotFoundError(f"none of {', '.join(QEMU_PROGRAMS)} is installed")


def qemu_version(system: System) -> str:
    """QEMU's version as dotted text."""
    return qemu(system)[1]


def _node(system: System, number: int) -> dict[str, Any]:
    folder = f"{_NODES}/node{number}"
    return {
        "node": number,
        "cpus": _cpu_list(sysfs.text(system, f"{folder}/cpulist")),
        "memory_mib": _memory_mib(system.read(f"{folder}/meminfo")),
        "hugepages": _hugepages(system, f"{folder}/hugepages"),
    }


def _hugepages(system: System, folder: str) -> list[dict[str, int]]:
    if not system.exists(folder):
        return []
    sizes = (re.match(r"hugepages-(\d+)kB$", name) for name in system.list(folder))
    kib = sorted(int(size.group(1)) for size in sizes if size)
    return [
        {
            "size_kib": size,
            "total": _number(system, f"{folder}/hugepages-{size}kB/nr_hugepages"),
            "free": _number(system, f"{folder}/hugepages-{size}kB/free_hugepages"),
        }
        for size in kib
    ]


def _number(system: System, path: str) -> int:
    return int(sysfs.text(system, path))


def _memory_mib(meminfo: str) -> int:
    total: re.Match[str] | None = re.search(r"MemTotal:\s+(\d+) kB", meminfo)
    if total is None:
        raise ValueError("meminfo has no MemTotal line")
    return int(total.group(1)) // 1024


def _cpu_list(text: str) -> list[int]:
    """``0-2,8`` → [0, 1, 2, 8]; an empty text (a node without CPUs) → []."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found

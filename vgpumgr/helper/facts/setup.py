"""How the kernel of a host is set up for giving devices away: its line, IOMMU, modules, KVM."""

from __future__ import annotations

import re

from vgpumgr.helper import sysfs
from vgpumgr.helper.facts import machine
from vgpumgr.helper.system import System

_IOMMU = "/sys/class/iommu"
_UNSAFE = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
_NESTED = tuple(f"/sys/module/{name}/parameters/nested" for name in ("kvm_intel", "kvm_amd"))
_MODPROBE = tuple(f"{at}/modprobe.d" for at in ("/etc", "/run", "/usr/lib", "/lib"))
_OF_INTEREST = ("nouveau", "vfio_pci", "kvm_intel", "kvm_amd")


def kernel_line(system: System) -> list[str]:
    """The words of the running kernel's command line."""
    return sysfs.text(system, "/proc/cmdline").split()


def acpi_tables(system: System) -> list[str]:
    """The names of the firmware's tables; their content is root's."""
    return list(_names(system, "/sys/firmware/acpi/tables"))


def iommus(system: System) -> list[str]:
    """The IOMMUs that the kernel uses (``dmar0``, ``ivhd0``)."""
    return list(_names(system, _IOMMU))


def iommu_groups(system: System) -> int:
    """How many IOMMU groups there are."""
    return len(_names(system, "/sys/kernel/iommu_groups"))


def intel_ecap(system: System) -> dict[str, str]:
    """The extended capability register of each Intel IOMMU, as hexadecimal digits."""
    found = {each: f"{_IOMMU}/{each}/intel-iommu/ecap" for each in iommus(system)}
    return {each: sysfs.text(system, at) for each, at in found.items() if system.exists(at)}


def remapping(system: System) -> bool:
    """Whether interrupts go through the IOMMU: the kernel then names their chips ``IR-…``

    (arch/x86/kernel/apic/io_apic.c; the prefix of drivers/iommu's MSI domains).
    """
    return re.search(r"\sIR-", system.read("/proc/interrupts")) is not None


def unsafe_interrupts(system: System) -> bool:
    """Whether VFIO was told to do without interrupt remapping; not while it is not loaded."""
    return sysfs.optional_text(system, _UNSAFE) in {"Y", "1"}


def modules(system: System) -> list[str]:
    """The modules that are loaded, by the kernel's names (``vfio_pci``)."""
    lines = system.read("/proc/modules").splitlines()
    return sorted(line.split()[0] for line in lines if line)


def available(system: System) -> list[str]:
    """Those modules of interest that the kernel has, as files or built in."""
    folder = f"/lib/modules/{machine.kernel(system)}"
    texts = (system.read(f"{folder}/modules.{name}") for name in ("dep", "builtin"))
    files = re.findall(r"([^/\s]+)\.ko(?:\.\w+)?(?::|$)", "\n".join(texts), re.MULTILINE)
    known = {name.replace("-", "_") for name in files}
    return [name for name in _OF_INTEREST if name in known]


def blacklisted(system: System) -> list[str]:
    """The modules that modprobe or the kernel line keep from being loaded for a device."""
    found = set(_on_the_line(kernel_line(system)))
    for folder in _MODPROBE:
        for name in _names(system, folder):
            if name.endswith(".conf"):
                found |= _in_file(system.read(f"{folder}/{name}"))
    return sorted(name.replace("-", "_") for name in found)


def guest_of(system: System) -> str:
    """What the host runs in, when it is a guest itself; empty on bare metal."""
    if " hypervisor" not in system.read("/proc/cpuinfo"):
        return ""
    return sysfs.optional_text(system, "/sys/class/dmi/id/sys_vendor") or "a hypervisor"


def nested(system: System) -> bool:
    """Whether guests may run KVM themselves."""
    return any(sysfs.optional_text(system, path) in {"Y", "1"} for path in _NESTED)


def _names(system: System, folder: str) -> tuple[str, ...]:
    return tuple(system.list(folder)) if system.exists(folder) else ()


def _on_the_line(words: list[str]) -> list[str]:
    lists = (word.partition("=") for word in words)
    options = ("modprobe.blacklist", "module_blacklist")
    return [name for key, _, names in lists if key in options for name in names.split(",")]


def _in_file(text: str) -> set[str]:
    """``blacklist NAME``, and ``install NAME /bin/false``."""
    lines = [line.split() for line in text.splitlines()]
    return {
        words[1]
        for words in lines
        if (words[:1] == ["blacklist"] and len(words) == 2)
        or (words[:1] == ["install"] and words[-1].endswith(("/false", "/true")))
    }

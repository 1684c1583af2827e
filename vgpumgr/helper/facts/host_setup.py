"""How a host is set up: kernel line, IOMMU, modules, KVM, firmware, sudo rules, units at boot."""

from __future__ import annotations

import re

from vgpumgr.helper import allowed_programs, pci, sysfs
from vgpumgr.helper.errors import ProbeParts
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


_EFI = "/sys/firmware/efi"
_SECURE_BOOT = "SecureBoot-"


def uefi(system: System) -> bool:
    """Whether the kernel was started by UEFI."""
    return system.exists(_EFI)


def secure_boot(system: System) -> bool:
    """Whether Secure Boot is on; ValueError where UEFI's variables do not say."""
    if not uefi(system):
        return False
    folder = f"{_EFI}/efivars"
    for name in system.list(folder):
        if name.startswith(_SECURE_BOOT):
            # Four bytes of attributes, then the value.
            return system.read(f"{folder}/{name}")[-1:] == "\x01"
    raise ValueError("UEFI has no variable SecureBoot")


def bars(system: System, addresses: list[str], parts: ProbeParts) -> dict[str, list[list[int]]]:
    """``[start, end, flags]`` of each line of each function's ``resource``.

    Lines 0 to 5 are its BARs, 7 to 12 those of its VFs (include/linux/pci.h).
    """
    found = {each: parts.read(f"bars {each}", _bars, system, each) for each in addresses}
    return {address: lines for address, lines in found.items() if lines is not None}


def _bars(system: System, address: str) -> list[list[int]]:
    lines = system.read(f"{pci.path(address)}/resource").splitlines()
    return [[int(word, 16) for word in line.split()] for line in lines]


_INSTALLED = "/usr/local/lib/vgpumgr/vgpumgr/helper/__init__.py"
_POOLS_AT_BOOT = "/etc/libvirt/storage/autostart"
_UNITS = (
    "vgpumgr-restore.service",
    *("libvirtd.service", "libvirtd.socket"),
    *("virtqemud.service", "virtqemud.socket"),
)
_PROPERTIES = {
    "load": "LoadState",
    "enabled": "UnitFileState",
    "active": "ActiveState",
    "result": "Result",
}
_SECONDS = 10.0
_MAY = "may run the following commands"
_MAY_NOT = ("is not allowed to", "may not run sudo")


def installed(system: System) -> str:
    """The version of the helper that lies on the host; empty where there is none."""
    if not system.exists(_INSTALLED):
        return ""
    found = re.search(r'^VERSION = "([^"]+)"', system.read(_INSTALLED), re.MULTILINE)
    if found is None:
        raise ValueError(f"no version in {_INSTALLED}")
    return found.group(1)


def sudo_rules(system: System) -> list[str]:
    """The rules that let our user do things as others, as sudo lists them: aliases are resolved,

    and those of his groups are among them. ValueError where sudo does not tell.
    """
    other = ("-U", system.user()) if system.root() else ()
    _, output = system.run((allowed_programs.SUDO, "-n", "-l", *other), _SECONDS)
    head, found, rules = output.partition(_MAY)
    if not found:
        if any(words in output for words in _MAY_NOT):
            return []
        raise ValueError(f"sudo -l says {head.strip()[-200:]!r}")
    return [line.strip() for line in rules.splitlines()[1:] if line.strip()]


def units(system: System) -> dict[str, dict[str, str]]:
    """The state of each systemd unit that matters; ValueError where systemd does not tell."""
    wanted = ",".join(("Id", *_PROPERTIES.values()))
    status, output = system.run(
        (allowed_programs.SYSTEMCTL, "show", f"-p{wanted}", *_UNITS), _SECONDS
    )
    blocks = [_properties(block) for block in output.strip().split("\n\n")]
    if status or not all("Id" in each for each in blocks):
        raise ValueError(f"systemctl show says {output.strip()[-200:]!r}")
    return {
        each["Id"]: {key: each.get(name, "") for key, name in _PROPERTIES.items()}
        for each in blocks
    }


def pools_at_boot(system: System) -> list[str]:
    """The storage pools that libvirt starts by itself; the folder is root's on some hosts."""
    names = system.list(_POOLS_AT_BOOT) if system.exists(_POOLS_AT_BOOT) else ()
    return [name[: -len(".xml")] for name in names if name.endswith(".xml")]


def _properties(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)

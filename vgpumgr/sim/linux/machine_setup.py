"""The set-up of a simulated machine apart from its devices, as ``doctor`` examines it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from vgpumgr.helper import VERSION
from vgpumgr.hosts.helper.helper_launch import FOLDER, sudo_rule
from vgpumgr.sim.linux.file_tree import FileTree

T = TypeVar("T")

USER = "gpuadm"
RESTORE = "vgpumgr-restore.service"
UNITS = "/etc/systemd/system"
ENABLED = {"load": "loaded", "enabled": "enabled", "active": "active", "result": "success"}
FAILED = {**ENABLED, "active": "failed", "result": "exit-code"}
_IOMMU, _EFI = "/sys/class/iommu", "/sys/firmware/efi"
# Three words of attributes; the last byte is the value.
_SECURE_BOOT = f"{_EFI}/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_TABLES = ("APIC", "DSDT", "FACP", "IVRS", "MCFG")


@dataclass(slots=True)
class Setup:
    """The defaults are those of a host that is well. ``units`` are systemd's, by name; ours is
    known only once its file is there. ``stopping``: systemd is shutting the machine down.

    ``faults`` names what was broken since, in the words of ``sim inject HOST setup``.
    """

    iommus: tuple[str, ...] = ("ivhd0",)
    tables: tuple[str, ...] = _TABLES
    kernel_line: str = "root=/dev/vda1 ro iommu=pt"
    remapping: bool = True
    unsafe_interrupts: bool = False
    modules: tuple[str, ...] = ("kvm", "kvm_amd", "vfio", "vfio_iommu_type1")
    available: tuple[str, ...] = ("kvm-amd", "nouveau", "vfio-pci")
    blacklist: tuple[str, ...] = ("nouveau",)
    guest_of: str = ""
    secure_boot: bool = False
    helper: str = VERSION
    sudo_rules: tuple[str, ...] = field(default_factory=lambda: (sudo_rule(),))
    units: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {RESTORE: ENABLED, "libvirtd.service": ENABLED}
    )
    pools_at_boot: tuple[str, ...] = ("default",)
    stopping: bool = False
    clock_ahead_s: float = 0.0
    synchronised: bool = True
    faults: tuple[str, ...] = ()

    def fail(self, unit: str) -> None:
        """Its run has ended badly."""
        self.units = {**self.units, unit: FAILED}


def show(
    tree: FileTree, setup: Callable[[], Setup], kernel: str, drivers: Callable[[], Iterable[str]]
) -> None:
    """Put the files; each is read anew, so that a fault shows at once.

    ``drivers`` are those of PCI functions that are loaded, ``kernel`` is its release.
    """
    texts: dict[str, Callable[[Setup], str]] = {
        "/proc/cmdline": lambda now: now.kernel_line,
        "/proc/interrupts": _interrupts,
        "/proc/modules": lambda now: _modules({*now.modules, *drivers()}),
        f"/lib/modules/{kernel}/modules.dep": _available,
        f"/lib/modules/{kernel}/modules.builtin": lambda _: "kernel/fs/ext4/ext4.ko",
        "/etc/modprobe.d/vgpumgr.conf": _blacklist,
        "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts": _unsafe,
        "/sys/module/kvm_amd/parameters/nested": lambda _: "1",
        "/sys/class/dmi/id/sys_vendor": lambda now: now.guest_of or "Supermicro",
        _SECURE_BOOT: lambda now: f"\x06\0\0\0{chr(now.secure_boot)}",
        f"{FOLDER}/vgpumgr/helper/__init__.py": lambda now: f'VERSION = "{now.helper}"',
    }
    for path, text in texts.items():
        tree.file(path, _read(setup, text))
    folders: dict[str, Callable[[Setup], Iterable[str]]] = {
        _IOMMU: lambda now: now.iommus,
        "/sys/firmware/acpi/tables": lambda now: now.tables,
        "/etc/libvirt/storage/autostart": lambda now: (f"{n}.xml" for n in now.pools_at_boot),
    }
    for path, names in folders.items():
        tree.listing(path, _read(setup, names))


def _read(setup: Callable[[], Setup], of: Callable[[Setup], T]) -> Callable[[], T]:
    return lambda: of(setup())


def flags(setup: Setup) -> str:
    """The processor's, as far as they matter."""
    return "fpu svm hypervisor" if setup.guest_of else "fpu svm"


def _interrupts(now: Setup) -> str:
    chip = "IR-PCI-MSI" if now.remapping else "PCI-MSI"
    return f"           CPU0\n 24:          1  {chip} 1048576-edge      nvme0q0\n"


def _modules(names: Iterable[str]) -> str:
    lines = (f"{name.replace('-', '_')} 16384 0 - Live 0x0" for name in sorted(names))
    return "\n".join(lines)


def _available(now: Setup) -> str:
    return "\n".join(f"kernel/drivers/{name}.ko.xz: kernel/lib/crc.ko.xz" for name in now.available)


def _blacklist(now: Setup) -> str:
    return "\n".join(f"blacklist {name}" for name in now.blacklist)


def _unsafe(now: Setup) -> str:
    return "Y" if now.unsafe_interrupts else "N"

"""Setting a simulated host up badly, for ``doctor`` to find. A reboot mends it, as ``clear`` does.

What a Fleet document says is set up there: ``iommu: false``, ``kvm: false``, old versions, pools.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vgpumgr.model.errors import UsageError
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.linux.setup import ENABLED, RESTORE, Setup

_ACS = "pcie_acs_override=downstream,multifunction"


def _set(**fields: object) -> Callable[[Kernel], None]:
    def change(kernel: Kernel) -> None:
        kernel.setup = replace(kernel.setup, **fields)  # type: ignore[arg-type]

    return change


def _with(change: Callable[[Setup], dict[str, object]]) -> Callable[[Kernel], None]:
    return lambda kernel: _set(**change(kernel.setup))(kernel)


def _bars(kernel: Kernel) -> None:
    for function in kernel.pci.functions.values():
        function.placed = False


def _vf_bars(kernel: Kernel) -> None:
    for sriov in kernel.sriov.values():
        sriov.pf.vfs_placed = False


FAULTS: dict[str, Callable[[Kernel], None]] = {
    "no-iommu-table": _set(iommus=(), tables=("APIC", "DSDT", "FACP")),
    "iommu-off": _with(lambda now: {"iommus": (), "kernel_line": f"{now.kernel_line} iommu=off"}),
    "no-remapping": _set(remapping=False),
    "unsafe-interrupts": _set(unsafe_interrupts=True),
    "acs-override": _with(lambda now: {"kernel_line": f"{now.kernel_line} {_ACS}"}),
    "nouveau": _with(lambda now: {"modules": (*now.modules, "nouveau")}),
    "no-blacklist": _set(blacklist=()),
    "no-vfio": _set(available=("kvm-amd", "nouveau")),
    "guest": _set(guest_of="QEMU"),
    "bars": _bars,
    "vf-bars": _vf_bars,
    "old-helper": _set(helper="0"),
    "no-sudo-rule": _set(sudo_rules=()),
    "broad-sudo": _with(lambda now: {"sudo_rules": (*now.sudo_rules, "(ALL) NOPASSWD: ALL")}),
    "no-libvirt-at-boot": _set(units={RESTORE: ENABLED}),
    "restore-failed": lambda kernel: kernel.setup.fail(RESTORE),
    "no-pool-at-boot": _set(pools_at_boot=()),
    "clock-ahead": _set(clock_ahead_s=90.0),
    "no-ntp": _set(synchronised=False),
}


def inject(kernel: Kernel, name: str) -> None:
    """Break one thing; UsageError names what can be broken."""
    if name not in FAULTS:
        raise UsageError(
            f"{name!r} is not a known set-up fault", next=f"one of: {', '.join(FAULTS)}"
        )
    FAULTS[name](kernel)
    kernel.setup = replace(kernel.setup, faults=(*kernel.setup.faults, name))


def clear(kernel: Kernel) -> None:
    """Set the host up as it was."""
    kernel.setup = kernel.fresh_setup()
    for function in kernel.pci.functions.values():
        function.placed = function.vfs_placed = True


def words(kernel: Kernel) -> tuple[str, ...]:
    """What is wrong, in the words of ``inject``."""
    return tuple(f"setup {name}" for name in kernel.setup.faults)

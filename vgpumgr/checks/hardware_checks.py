"""Checks of a host's hardware: IOMMU, isolation, firmware, BARs, room for disks, and the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpumgr.checks.check_results import (
    CheckFix,
    bad,
    bootstrap,
    nvidia_gpus,
    ok,
    unknown,
    unread,
    warn,
)
from vgpumgr.model.examination import Bar, Examination, Finding
from vgpumgr.model.gpu import GpuFacts

_INTEL, _AMD = "DMAR", "IVRS"
_OFF = ("intel_iommu=off", "amd_iommu=off", "iommu=off")
# VT-d specification 11.4.3: interrupt remapping is bit 3 of the extended capabilities.
_REMAPS = 1 << 3
_GRUB = (
    "add {words} to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then: update-grub && reboot"
)


def iommu(x: Examination) -> Finding:
    """The kernel uses an IOMMU and has put the devices into groups."""
    check = "iommu"
    missing = unread(x, check, "iommus", "iommu_groups")
    if missing is not None:
        return missing
    units = x.seen.iommus or ()
    if units and x.seen.iommu_groups:
        return ok(check, f"{', '.join(units)}: {x.seen.iommu_groups} groups")
    tables = x.seen.acpi_tables
    if tables is not None and not {_INTEL, _AMD} & set(tables):
        why = f"the IOMMU is off: the firmware has no table {_INTEL} or {_AMD}"
        return bad(
            check, why, CheckFix(by_hand="enable VT-d or AMD-Vi (IOMMU) in the firmware's setup")
        )
    words = "iommu=pt" if tables and _AMD in tables else "intel_iommu=on iommu=pt"
    fix = bootstrap(x, "iommu", _GRUB.format(words=words))
    return bad(check, f"the IOMMU is off: {_why_off(x, words.split(maxsplit=1)[0])}", fix)


def _why_off(x: Examination, wanted: str) -> str:
    line = x.seen.kernel_line
    if line is None:
        return "no passthrough"
    off = [word for word in line if word in _OFF]
    if off:
        return f"the kernel line says {off[0]}"
    if wanted in line:
        return f"the kernel line has {wanted}, and the kernel found none that it can use"
    return f"{wanted} is not on the kernel line"


def interrupt_remapping(x: Examination) -> Finding:
    """Interrupts of devices are checked by the IOMMU, or VFIO refuses them."""
    check = "interrupt remapping"
    missing = unread(x, check, "iommus", "remapping", "unsafe_interrupts")
    if missing is not None:
        return missing
    if not x.seen.iommus:
        return unknown(check, "there is no IOMMU to do it")
    if not x.seen.remapping:
        return bad(check, f"off: {_why_not_remapped(x)}", _remap_fix(x))
    if x.seen.unsafe_interrupts:
        text = "on, but VFIO may do without: allow_unsafe_interrupts=1"
        return warn(check, text, _safe_fix(x))
    return ok(check, "on")


def _why_not_remapped(x: Examination) -> str:
    if "intremap=off" in (x.seen.kernel_line or ()):
        return "the kernel line says intremap=off"
    cannot = [name for name, ecap in x.seen.intel_ecap.items() if not ecap & _REMAPS]
    if cannot:
        return f"{', '.join(cannot)} cannot do it"
    return "VFIO refuses to give devices away without it"


def _without(word: str) -> CheckFix:
    return CheckFix(by_hand=f"remove {word} from /etc/default/grub, then: update-grub && reboot")


def _remap_fix(x: Examination) -> CheckFix:
    if "intremap=off" in (x.seen.kernel_line or ()):
        return CheckFix(
            by_hand="remove intremap=off from /etc/default/grub, then: update-grub && reboot"
        )
    return CheckFix(by_hand="enable interrupt remapping (x2APIC) in the firmware's setup")


def _safe_fix(x: Examination) -> CheckFix:
    by_hand = "remove allow_unsafe_interrupts from /etc/modprobe.d and the kernel line, then reboot"
    return bootstrap(x, "vfio", by_hand)


def isolation(x: Examination) -> Finding:
    """A GPU's IOMMU group holds nothing else, and is what the hardware isolates."""
    check = "isolation"
    missing = unread(x, check, "kernel_line")
    if missing is not None:
        return missing
    override = [word for word in x.seen.kernel_line or () if word.startswith("pcie_acs_override")]
    if override:
        return warn(
            check,
            f"{override[0]}: groups are split that the hardware does not isolate",
            CheckFix(
                by_hand=f"remove {override[0]} from /etc/default/grub, then: update-grub && reboot"
            ),
        )
    shared = list(_shared(x))
    if shared:
        by_hand = "enable ACS in the firmware's setup, or move the GPU to another slot"
        return warn(check, "; ".join(shared), CheckFix(by_hand=by_hand))
    return ok(check, "every GPU has an IOMMU group of its own")


def _shared(x: Examination) -> Iterator[str]:
    """What shares a group with a GPU and is no part of it; a boot console is not given away."""
    gpus = {gpu.device for gpu in x.facts.gpus}
    for gpu in x.facts.gpus:
        others = set(gpu.group_devices) - {gpu.device, *gpu.siblings}
        if others and not gpu.boot_vga:
            kind = "another GPU" if others & gpus else "other devices"
            named = ", ".join(sorted(others))
            yield f"{gpu.device} shares group {gpu.iommu_group} with {kind}: {named}"


# include/linux/ioport.h
_MEMORY, _UNSET = 0x200, 0x20000000
_OWN, _OF_VFS = slice(0, 6), slice(7, 13)


def firmware(x: Examination) -> Finding:
    """How the host booted, and whether Secure Boot keeps NVIDIA's driver out."""
    check = "firmware"
    missing = unread(x, check, "uefi", "secure_boot")
    if missing is not None:
        return missing
    if not x.seen.secure_boot:
        return ok(check, "UEFI, Secure Boot off" if x.seen.uefi else "BIOS")
    idle = [gpu.device for gpu in x.facts.gpus if gpu.driver is None]
    if nvidia_gpus(x) and idle and "nvidia" not in (x.seen.modules or ()):
        return warn(
            check,
            "Secure Boot is on and NVIDIA's driver is not loaded: is it signed?",
            CheckFix(
                by_hand="mokutil --import KEY, and sign the driver with it; or Secure Boot off"
            ),
        )
    return ok(check, "UEFI, Secure Boot on")


def bars(x: Examination) -> Finding:
    """Every GPU's memory windows, and those of its VFs, have addresses."""
    check = "bars"
    unplaced, unread_ones = [], []
    for gpu in x.facts.gpus:
        lines = x.seen.bars.get(gpu.device)
        if gpu.address is not None and lines is None:
            unread_ones.append(gpu.device)
        unplaced += [f"{gpu.device}: {what}" for what in _unplaced(gpu, lines or ())]
    if unplaced:
        by_hand = (
            "enable 'Above 4G decoding' and SR-IOV in the firmware's setup, "
            "or add pci=realloc to the kernel line, then reboot"
        )
        return bad(check, f"without addresses: {'; '.join(unplaced)}", CheckFix(by_hand=by_hand))
    if unread_ones:
        part = "bars" if not x.seen.bars else f"bars {unread_ones[0]}"
        return unknown(check, f"{', '.join(unread_ones)}: {x.seen.why(part)}")
    return ok(check, "all placed")


def _unplaced(gpu: GpuFacts, lines: Sequence[Bar]) -> Iterator[str]:
    """A window that got no place keeps its size, or reads zero (setup-bus.c, reset_resource)."""
    if not lines:
        return
    own, of_vfs = lines[_OWN], lines[_OF_VFS]
    failed = [number for number, bar in enumerate(own) if _failed(bar)]
    if failed or not any(bar.start for bar in own):
        yield f"BAR {', '.join(map(str, failed))}" if failed else "all BARs"
    if gpu.sriov_total and of_vfs and (any(map(_failed, of_vfs)) or not _any_placed(of_vfs)):
        yield "the BARs of its VFs"


def _any_placed(bars: Sequence[Bar]) -> bool:
    return any(bar.start for bar in bars)


def _failed(bar: Bar) -> bool:
    return bool(bar.flags & _UNSET or (bar.flags & _MEMORY and not bar.start and bar.end))


POOL = "default"
_GIB = 1 << 30
_LOW_BYTES, _LOW_SHARE, _FULL_BYTES = 10 * _GIB, 0.10, _GIB
_WARN_S, _BAD_S = 1.0, 30.0


def storage(x: Examination) -> Finding:
    """The storage pool that disks go to is active, starts with the host, and has room."""
    check = "storage"
    if any(each.part == "libvirt" for each in x.facts.unknown):
        return unknown(check, "libvirt does not answer")
    pool = next((each for each in x.facts.pools if each.name == POOL), None)
    if pool is None:
        by_hand = (
            f"virsh pool-define-as {POOL} dir --target /var/lib/libvirt/images && "
            f"virsh pool-build {POOL} && virsh pool-start {POOL} && virsh pool-autostart {POOL}"
        )
        return bad(check, f"no storage pool {POOL}", bootstrap(x, "libvirt", by_hand))
    if not pool.active:
        start = bootstrap(x, "libvirt", f"virsh pool-start {POOL}")
        return bad(check, f"storage pool {POOL} is not active", start)
    free, share = pool.available_bytes, pool.available_bytes / max(1, pool.capacity_bytes)
    room = f"{free / _GIB:.1f} GiB ({share:.0%}) free in {pool.path or POOL}"
    if free < _LOW_BYTES or share < _LOW_SHARE:
        answer = bad if free < _FULL_BYTES else warn
        return answer(check, room, CheckFix(by_hand=f"virsh vol-list {POOL}; df -h {pool.path}"))
    if x.seen.pools_at_boot is not None and POOL not in x.seen.pools_at_boot:
        auto = bootstrap(x, "libvirt", f"virsh pool-autostart {POOL}")
        return warn(check, f"storage pool {POOL} does not start with the host", auto)
    return ok(check, room)


def clock(x: Examination) -> Finding:
    """The host's clock agrees with ours as far as the call tells, and NTP keeps it."""
    check, offset = "clock", x.clock_offset_s
    if offset is None:
        return unknown(check, x.seen.why("now"))
    keep = CheckFix(by_hand="apt install systemd-timesyncd && timedatectl set-ntp true")
    surely = abs(offset) - x.clock_within_s
    where = "ahead of" if offset > 0 else "behind"
    if surely > _WARN_S:
        answer = bad if surely > _BAD_S else warn
        return answer(check, f"{surely:.1f} s {where} this machine's", keep)
    missing = unread(x, check, "synchronised")
    if missing is not None:
        return missing
    if not x.seen.synchronised:
        return warn(
            check, "it agrees with this machine's now, but nothing keeps it so: no NTP", keep
        )
    return ok(
        check,
        f"kept by NTP; agrees with this machine's within {abs(offset) + x.clock_within_s:.1f} s",
    )

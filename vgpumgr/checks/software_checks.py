"""Checks of a host's software: GPU drivers, KVM, and the versions of libvirt and QEMU."""

from __future__ import annotations

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
from vgpumgr.domainxml import libvirt_acceptance
from vgpumgr.model.examination import Examination, Finding
from vgpumgr.model.formats import LIVE_VGPU_NEEDS, version_numbers
from vgpumgr.model.gpu import GpuFacts

_NOUVEAU, _VFIO = "nouveau", "vfio_pci"
_BLACKLIST = (
    "echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf && update-initramfs -u && reboot"
)


def nouveau(x: Examination) -> Finding:
    """nouveau does not take NVIDIA GPUs, at this boot or the next."""
    check = "nouveau"
    if not nvidia_gpus(x):
        return ok(check, "no NVIDIA GPU")
    missing = unread(x, check, "modules", "blacklisted")
    if missing is not None:
        return missing
    fix = bootstrap(x, "driver_blacklist", _BLACKLIST)
    if _NOUVEAU in (x.seen.modules or ()):
        return bad(check, f"it is loaded{_held(x)}", fix)
    if _NOUVEAU in (x.seen.blacklisted or ()):
        return ok(check, "blacklisted")
    missing = unread(x, check, "available")
    if missing is not None:
        return missing
    if _NOUVEAU in (x.seen.available or ()):
        return warn(check, "not blacklisted: the next boot may load it", fix)
    return ok(check, "this kernel has none")


def _held(x: Examination) -> str:
    held = [gpu.device for gpu in x.facts.gpus if gpu.driver == _NOUVEAU]
    return f" and holds {', '.join(held)}" if held else ""


def vfio(x: Examination) -> Finding:
    """vfio-pci is there to hold devices for VMs."""
    check = "vfio"
    if _VFIO in (x.seen.modules or ()):
        return ok(check, "vfio-pci is loaded")
    missing = unread(x, check, "available")
    if missing is not None:
        return missing
    if _VFIO in (x.seen.available or ()):
        return ok(check, "vfio-pci is loaded when it is needed")
    by_hand = "install the full kernel (Debian: linux-image-amd64, not the cloud one) and reboot"
    return bad(check, "this kernel has no vfio-pci", CheckFix(by_hand=by_hand))


def kvm(x: Examination) -> Finding:
    """The host's own kernel boots under KVM."""
    check = "kvm"
    if x.facts.kvm:
        return ok(check, "works")
    whys = [each.why for each in x.facts.unknown if each.part == check]
    if whys:
        return unknown(check, whys[0])
    text = "it does not work: domains run under TCG, some twenty times slower"
    by_hand = "enable VT-x or SVM in the firmware's setup; modprobe kvm_intel or kvm_amd"
    answer = bad if x.record.accelerator == check else warn
    return answer(check, text, CheckFix(by_hand=by_hand))


def nesting(x: Examination) -> Finding:
    """The host is no guest itself."""
    check = "nesting"
    missing = unread(x, check, "guest_of", "nested")
    if missing is not None:
        return missing
    if x.seen.guest_of:
        text = f"this host is itself a guest ({x.seen.guest_of}): its IOMMU and KVM are emulated"
        return warn(check, text)
    guests = "may" if x.seen.nested else "may not"
    return ok(check, f"bare metal; guests {guests} run KVM themselves")


# From here on NVIDIA's driver makes vGPUs of SR-IOV boards on VFs, and no mdevs.
_VF_KERNEL = (6, 8)
# The helper's words where it looked and found none.
_ABSENT = "is installed"
_NEWER = "upgrade the host's distribution (Debian: apt full-upgrade to the next release)"


def libvirt_version(x: Examination) -> Finding:
    """libvirt knows all that our domains may say on this host."""
    check, version = "libvirt version", x.facts.versions.libvirt
    if not version:
        return unknown(check, "libvirt did not answer")
    if any(vf.vendor is not None for gpu in x.facts.gpus for vf in gpu.vfs):
        if not libvirt_acceptance.knows(version, "vendor driver of a VF"):
            text = f"{version}: a VF under the vendor's driver needs 9.7, so no vGPU can be given"
            return bad(check, text, CheckFix(by_hand=_NEWER))
        if not libvirt_acceptance.knows(version, "hostdev pci display"):
            text = f"{version}: the display of a VF needs 10.3"
            return warn(check, text, CheckFix(by_hand=_NEWER))
    missing = libvirt_acceptance.missing(version)
    return ok(check, f"{version}, without: {', '.join(missing)}" if missing else version)


def qemu(x: Examination) -> Finding:
    """QEMU is there."""
    check, version = "qemu", x.facts.versions.qemu
    if version:
        return ok(check, version)
    why = next((each.why for each in x.facts.unknown if each.part == check), "it was not asked")
    if why.endswith(_ABSENT):
        fix = bootstrap(x, "libvirt", "apt install qemu-system-x86")
        return bad(check, why, fix)
    return unknown(check, why)


def vgpu_driver(x: Examination) -> Finding:
    """NVIDIA's driver offers vGPUs on the VFs that are on."""
    check = "vgpu driver"
    kernel, driver = x.facts.versions.kernel, x.facts.versions.driver
    silent = [gpu.device for gpu in x.facts.gpus if _is_silent(gpu)]
    if silent:
        new = version_numbers(kernel) >= _VF_KERNEL
        why = f"kernel {kernel} takes no mdevs of it" if new else "is nvidia-vgpu-mgr running?"
        text = f"driver {driver} offers no vGPU on the VFs of {', '.join(silent)}: {why}"
        return bad(check, text, CheckFix(by_hand="install a vGPU host driver made for this kernel"))
    return ok(check, f"NVIDIA {driver}" if driver else "no NVIDIA driver")


def _is_silent(gpu: GpuFacts) -> bool:
    """VFs under NVIDIA's driver that have neither its files nor mdev types."""
    vfs = [vf for vf in gpu.vfs if vf.driver == "nvidia"]
    return bool(vfs) and not any(vf.vendor is not None or vf.mdev_types for vf in vfs)


def migration(x: Examination) -> Finding:
    """A running VM with a vGPU can move."""
    check = "live migration"
    versions = {name: getattr(x.facts.versions, name) for name in LIVE_VGPU_NEEDS}
    untold = [name for name, version in versions.items() if not version]
    if untold:
        return unknown(check, f"no version reported of {', '.join(untold)}")
    old = [
        f"{name} {versions[name]} (needs {'.'.join(map(str, wanted))})"
        for name, wanted in LIVE_VGPU_NEEDS.items()
        if version_numbers(versions[name]) < wanted
    ]
    if old:
        text = f"a running VM with a vGPU cannot move: {', '.join(old)}"
        return warn(check, text, CheckFix(by_hand=_NEWER))
    return ok(check, "libvirt, QEMU and kernel are new enough")

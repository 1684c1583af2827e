"""Do the drivers that should hold the GPUs hold them, and does KVM work?"""

from __future__ import annotations

from vgpumgr.checks.answers import Fix, bad, bootstrap, nvidia_gpus, ok, unknown, unread, warn
from vgpumgr.model.examined import Examination, Finding

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
    return bad(check, "this kernel has no vfio-pci", Fix(by_hand=by_hand))


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
    return answer(check, text, Fix(by_hand=by_hand))


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

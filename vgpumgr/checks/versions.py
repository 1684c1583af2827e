"""Are libvirt, QEMU, kernel and driver new enough for what the GPUs need?"""

from __future__ import annotations

from vgpumgr.checks.answers import Fix, bad, bootstrap, ok, unknown, warn
from vgpumgr.domainxml import since
from vgpumgr.model.examined import Examination, Finding
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.versions import LIVE_VGPU_NEEDS, numbers

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
        if not since.knows(version, "vendor driver of a VF"):
            text = f"{version}: a VF under the vendor's driver needs 9.7, so no vGPU can be given"
            return bad(check, text, Fix(by_hand=_NEWER))
        if not since.knows(version, "hostdev pci display"):
            text = f"{version}: the display of a VF needs 10.3"
            return warn(check, text, Fix(by_hand=_NEWER))
    missing = since.missing(version)
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
        new = numbers(kernel) >= _VF_KERNEL
        why = f"kernel {kernel} takes no mdevs of it" if new else "is nvidia-vgpu-mgr running?"
        text = f"driver {driver} offers no vGPU on the VFs of {', '.join(silent)}: {why}"
        return bad(check, text, Fix(by_hand="install a vGPU host driver made for this kernel"))
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
        if numbers(versions[name]) < wanted
    ]
    if old:
        text = f"a running VM with a vGPU cannot move: {', '.join(old)}"
        return warn(check, text, Fix(by_hand=_NEWER))
    return ok(check, "libvirt, QEMU and kernel are new enough")

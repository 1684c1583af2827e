"""A domain of libvirt's, or of oVirt's on top of it, as a VM with copies of its disks.

A domain on a host of the fleet is better adopted, as it is; this is for one on a host that stays
outside.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lxml import etree

from vgpumgr.domainxml.foreign_domains import Described, described
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import PASSED_CPU
from vgpumgr.takeover import libvirt_devices
from vgpumgr.takeover.guest_description import GuestDescription, Unreadable
from vgpumgr.takeover.source_keys import SourceKeys, shown
from vgpumgr.takeover.takeover_choices import TakeoverChoices

CONTAINERS = frozenset(
    {
        *("clock", "cpu", "cputune", "features", "memoryBacking", "metadata", "numatune", "os"),
        *("pm", "sysinfo"),
    }
)
"""Elements whose parts are named one by one."""

EMPTY_TPM = "an empty TPM 2.0: the old one's state is lost (BitLocker asks for its recovery key)"
_FOLLOWS = "it follows from the VM's devices"
_GUEST = "as every VM has it"

KEPT: Mapping[str, str] = MappingProxyType(
    {
        "name": "the VM's name, in lower-case letters, digits and hyphens",
        "memory": "the VM's memory",
        "vcpu": "the VM's vCPUs",
        "features/acpi": "ACPI",
        "features/apic": "APIC",
        "os/firmware": "the firmware",
        "os/type": "a PC of 64 bits; it is a q35",
        "rng": "every VM has virtio random numbers",
        "serial": "the serial line of vgpumgr vm console",
    }
)

CHANGED: Mapping[str, str] = MappingProxyType(
    {
        "clock/timer": _GUEST,
        "console": "the serial line of vgpumgr vm console",
        "controller": _FOLLOWS,
        "currentMemory": "all of its memory",
        "emulator": "the host's own QEMU",
        "graphics": "a screen over VNC, for vgpumgr vm connect",
        "input": "a tablet comes with the screen",
        "memballoon": _FOLLOWS,
        "on_crash": _GUEST,
        "on_poweroff": _GUEST,
        "on_reboot": _GUEST,
        "os/boot": "boots from its first disk",
        "os/loader": "the firmware that the host's descriptors name",
        "pm/suspend-to-disk": _GUEST,
        "pm/suspend-to-mem": _GUEST,
        "resource": "the host's own cgroup of machines",
        "seclabel": "the labels that the host gives",
        "sound": "an ICH9 sound card, which a VNC viewer can play",
        "tpm": EMPTY_TPM,
        "video": _FOLLOWS,
        "watchdog": "the watchdog of q35, which resets a guest that hangs",
        **{
            f"features/{each}": _GUEST
            for each in ("gic", "hyperv", "ioapic", "kvm", "pae", "pmu", "smm", "vmport", "hap")
        },
    }
)

_NO_KEY = "no key for it"

LOST: Mapping[str, str] = MappingProxyType(
    {
        "audio": "how the old screen played sound",
        "blkiotune": "limits are said for each disk",
        "channel": "no channel but the guest agent's",
        "commandline": "arguments of QEMU's own are never carried over",
        "cputune/emulatorpin": "placement chooses the CPUs; pin_cpus: true pins them",
        "cputune/vcpupin": "placement chooses the CPUs; pin_cpus: true pins them",
        "description": _NO_KEY,
        "filesystem": "no folder of the host",
        "genid": "no generation id",
        "hostdev": "no device of the host but GPU parts",
        "hub": "no USB hub",
        "iommu": "no IOMMU in the guest",
        "iothreads": "no threads of their own for disks",
        "launchSecurity": "the guest's memory is not encrypted",
        "lease": "no lease of a lock manager",
        "maxMemory": "all of its memory is there from the start",
        "memoryBacking/access": _NO_KEY,
        "memoryBacking/allocation": _NO_KEY,
        "memoryBacking/locked": _NO_KEY,
        "memoryBacking/nosharepages": _NO_KEY,
        "memoryBacking/source": _NO_KEY,
        "numatune/memnode": "the guest's NUMA nodes follow from where it is placed",
        "numatune/memory": "placement finds one NUMA node for the VM and its GPU",
        "nvram": _NO_KEY,
        "os/bios": _NO_KEY,
        "os/bootmenu": _NO_KEY,
        "os/cmdline": "no kernel of the host's",
        "os/initrd": "no kernel of the host's",
        "os/kernel": "no kernel of the host's",
        "os/nvram": "EFI variables: the firmware finds the boot loader by its usual path",
        "os/smbios": "the machine names no manufacturer, product or serial number",
        "panic": "no panic device",
        "parallel": "no parallel port",
        "perf": _NO_KEY,
        "redirdev": "no USB redirection",
        "redirfilter": "no USB redirection",
        "shmem": "no memory is shared between VMs",
        "smartcard": "no smart card",
        "sysinfo/baseBoard": "the machine names no manufacturer, product or serial number",
        "sysinfo/bios": "the machine names no manufacturer, product or serial number",
        "sysinfo/chassis": "the machine names no manufacturer, product or serial number",
        "sysinfo/system": "the machine names no manufacturer, product or serial number",
        "title": _NO_KEY,
        "vcpus": "all vCPUs are there from the start",
        "vsock": "no socket to the host",
    }
)


MAX_KEYS = 5_000
_NAMED_BY_TARGET = frozenset({"disk"})
_OWN_KERNEL = ("os/kernel", "os/initrd", "os/cmdline")


@dataclass(slots=True)
class ReadDomain:
    """A domain as far as it was read. ``devices`` are its devices by what findings call them:
    ``disk vda``, ``hostdev 0``.
    """

    choices: TakeoverChoices
    root: etree._Element
    keys: SourceKeys
    devices: dict[str, etree._Element]
    problems: list[str] = field(default_factory=list)

    def of_kind(self, tag: str) -> Iterator[tuple[str, etree._Element]]:
        """The devices of one kind, in their order."""
        return ((key, each) for key, each in self.devices.items() if each.tag == tag)


def read(source: str, text: str, choices: TakeoverChoices) -> GuestDescription:
    """The domain of ``virsh dumpxml --inactive``; Unreadable."""
    try:
        root, told = untrusted(text, "domain"), described(text)
    except ValueError as error:
        raise Unreadable(str(error)) from error
    devices = _devices(root)
    keys = SourceKeys(dict.fromkeys(_keys(root, devices), ""))
    found = ReadDomain(choices, root, keys, devices)
    _refuse(found, told)
    title = told.name or source
    description = GuestDescription(
        source=source,
        title=title,
        vcpus=max(told.vcpus, 1),
        memory_mib=told.memory_mib,
        gpus=libvirt_devices.gpus(found),
        disks=libvirt_devices.disks(found),
        nics=libvirt_devices.nics(found),
        firmware=told.firmware,
        secure_boot=told.secure_boot,
        tpm="tpm" in told.optional_devices or root.find("devices/tpm") is not None,
        console=root.find("devices/graphics") is not None,
        agent=libvirt_devices.agent(found),
        audio=root.find("devices/sound") is not None,
        cpu_model=_cpu(found, told),
        cpu_shares=_shares(found, told),
        hugepage_kib=_hugepages(found, told),
        uuid=_uuid(found),
        stop=f"virsh shutdown {shlex.quote(title)}",
    )
    _rest(found)
    return replace(description, findings=keys.findings(), problems=tuple(found.problems))


def _devices(root: etree._Element) -> dict[str, etree._Element]:
    found: dict[str, etree._Element] = {}
    counts: dict[str, int] = {}
    for each in root.iterfind("devices/*"):
        tag = _tag(each)
        counts[tag] = counts.get(tag, -1) + 1
        target = each.find("target")
        name = str(target.get("dev", "")) if target is not None else ""
        key = f"{tag} {name}" if tag in _NAMED_BY_TARGET and name else f"{tag} {counts[tag]}"
        found[key if key not in found else f"{tag} {counts[tag]}.{len(found)}"] = each
    return found


def _keys(root: etree._Element, devices: dict[str, etree._Element]) -> Iterator[str]:
    """Every element down to the parts of devices, by its path; like ones count once."""
    for count, path in enumerate(_paths(root, devices)):
        if count >= MAX_KEYS:
            raise Unreadable(f"more than {MAX_KEYS} elements")
        yield path


def _paths(root: etree._Element, devices: dict[str, etree._Element]) -> Iterator[str]:
    for child in root:
        tag = _tag(child)
        if tag == "devices":
            for key, device in devices.items():
                yield key
                yield from (f"{key}.{_tag(part)}" for part in device)
        elif tag in CONTAINERS:
            yield from (f"{tag}/{_tag(part)}" for part in child)
        else:
            yield tag


def _tag(element: etree._Element) -> str:
    return etree.QName(element).localname


def _refuse(found: ReadDomain, told: Described) -> None:
    """What is no domain that could be taken over as it stands."""
    if told.kind not in {"kvm", "qemu"}:
        found.problems.append(f"it is a domain of {shown(told.kind) or 'no kind'}, not of QEMU")
    machine = found.root.find("os/type")
    arch = "x86_64" if machine is None else machine.get("arch", "x86_64")
    if arch != "x86_64":
        found.problems.append(f"its architecture is {shown(arch)}, not x86_64")
    if any(key in found.keys for key in _OWN_KERNEL):
        found.problems.append("it boots a kernel of its host's: install a boot loader in the guest")


def _uuid(found: ReadDomain) -> str:
    uuid = (found.root.findtext("uuid") or "").strip().lower()
    found.keys.kept("uuid", "the machine's UUID")
    return uuid


def _cpu(found: ReadDomain, told: Described) -> str:
    model = told.cpu_model or PASSED_CPU
    for key in found.keys:
        if key.startswith("cpu/") and key not in {"cpu/model", "cpu/topology"}:
            found.keys.lost(key, "the CPU is the host's own, or the named one, without changes")
    found.keys.kept("cpu/model", f"CPU {shown(model)}")
    found.keys.changed("cpu/topology", "one socket with all cores")
    return model


def _shares(found: ReadDomain, told: Described) -> int | None:
    found.keys.kept("cputune/shares", f"a weight of {told.cpu_shares}")
    return told.cpu_shares


def _hugepages(found: ReadDomain, told: Described) -> int | None:
    if told.default_pages:
        found.keys.changed("memoryBacking/hugepages", "pages of 2 MiB")
        return 2048 if told.memory_mib % 2 == 0 else None
    if told.hugepage_kib in {2048, 1 << 20}:
        found.keys.kept("memoryBacking/hugepages", f"pages of {told.hugepage_kib >> 10} MiB")
        return told.hugepage_kib
    found.keys.lost("memoryBacking/hugepages", "ordinary pages")
    return None


def _rest(found: ReadDomain) -> None:
    """The elements of which nothing more is read."""
    keys = found.keys
    clock = found.root.find("clock")
    if clock is not None and clock.get("offset") == "localtime":
        keys.changed("clock", "the machine's clock is in UTC: Windows needs RealTimeIsUniversal=1")
    for key in keys:
        whole, _, part = key.partition(".")
        device = found.devices.get(whole)
        word = key if device is None else str(device.tag)
        if part:
            keys.changed(key, "libvirt and the VM's own keys say it")
        elif word in KEPT:
            keys.kept(key, KEPT[word])
        elif word in CHANGED:
            keys.changed(key, CHANGED[word])
        elif word in LOST:
            keys.lost(key, LOST[word])
        elif word.startswith("metadata/"):
            keys.lost(key, "what its manager keeps for itself")

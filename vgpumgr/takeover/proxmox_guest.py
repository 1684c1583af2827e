"""A guest of Proxmox VE as a VM: its name, memory, CPU and machine, with its drives and devices."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from vgpumgr.model.vm_names import legal_name
from vgpumgr.takeover import proxmox_devices, proxmox_drives
from vgpumgr.takeover.guest_description import GuestDescription
from vgpumgr.takeover.proxmox_config import DESCRIPTION, ReadGuest, parse, properties
from vgpumgr.takeover.proxmox_devices import FIRST_BOOT, LOST_KEYS, SAME_KEYS
from vgpumgr.takeover.source_keys import SourceKeys, is_on, shown, whole
from vgpumgr.takeover.takeover_choices import TakeoverChoices

_ID = re.compile(r"(?:^|.*/)([1-9][0-9]{2,8})(?:\.conf)?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,57}")
# Models that libvirt has under the same name; the rest are QEMU's own or Proxmox's.
_LIBVIRT_CPU = re.compile(
    r"(?:Broadwell|Cascadelake-Server|Conroe|Cooperlake|EPYC|Haswell|Icelake-Server|IvyBridge|"
    r"Nehalem|Opteron_G[1-5]|Penryn|SandyBridge|SapphireRapids|Skylake-(?:Client|Server)|Westmere)"
    r"(?:-(?:IBRS|IBPB|noTSX|noTSX-IBRS|Rome|Milan|Genoa))?"
)
_MIB_PAGES = {"2": 2048, "1024": 1 << 20}
_MOST_SHARES, _LEAST_SHARES = 10_000, 2
_DEFAULT_MIB = 512


def read(source: str, text: str, choices: TakeoverChoices) -> GuestDescription:
    """A guest of ``qm config`` or of its file; Unreadable for a text that is none."""
    config = parse(text)
    match = _ID.fullmatch(source)
    guest = ReadGuest(SourceKeys(config.values), choices, match[1] if match else "")
    guest.problems += config.problems
    _refuse(guest)
    title = _title(guest)
    drives = proxmox_drives.read(guest)
    found = GuestDescription(
        source=source,
        title=title,
        vcpus=_vcpus(guest),
        memory_mib=_memory(guest),
        gpus=proxmox_devices.gpus(guest),
        disks=drives.disks,
        nics=proxmox_devices.nics(guest),
        firmware=_firmware(guest),
        secure_boot=drives.secure_boot,
        tpm=drives.tpm,
        console=proxmox_devices.console(guest),
        agent=_agent(guest),
        audio=_audio(guest),
        autostart=_autostart(guest),
        cpu_model=_cpu(guest),
        cpu_shares=_shares(guest),
        hugepage_kib=_hugepages(guest),
        uuid=_uuid(guest),
        labels=_labels(guest),
        stop=f"qm shutdown {guest.id or shlex.quote(title)}",
    )
    found = replace(found, os=_system(guest, found))
    _machine(guest)
    _rest(guest)
    return _finished(found, guest)


def _finished(found: GuestDescription, guest: ReadGuest) -> GuestDescription:
    return replace(found, findings=guest.keys.findings(), problems=tuple(guest.problems))


def _refuse(guest: ReadGuest) -> None:
    """What is no VM that could be taken over as it stands."""
    keys = guest.keys
    if is_on(keys.get("template")):
        guest.problems.append(
            "it is a template: import its disk as an image (vgpumgr image import)"
        )
    keys.kept("template", "no template" if not is_on(keys.get("template")) else "a template")
    if lock := keys.get("lock"):
        guest.problems.append(f"it is locked there ({shown(lock)}): qm unlock {guest.id or 'ID'}")
    keys.lost("lock", "a lock of that manager's")
    if keys.get("arch", "x86_64") != "x86_64":
        guest.problems.append(f"its architecture is {shown(keys.get('arch'))}, not x86_64")
    keys.kept("arch", "x86_64 is what hosts run")


def _title(guest: ReadGuest) -> str:
    name = guest.keys.get("name")
    legal = legal_name(name)
    if legal == name:
        guest.keys.kept("name", name)
    else:
        guest.keys.changed("name", f"{legal}: lower-case letters, digits and hyphens alone")
    return name or f"vm-{guest.id or 'unnamed'}"


def _vcpus(guest: ReadGuest) -> int:
    keys = guest.keys
    sockets, cores = (whole(keys.get(each, "1"), 1 << 16) for each in ("sockets", "cores"))
    total = (sockets or 0) * (cores or 0)
    if "sockets" not in keys and "cores" not in keys and "smp" in keys:
        total = whole(keys.get("smp"), 1 << 16) or 0
    if not total:
        guest.problems.append("sockets and cores are not whole numbers from 1")
    keys.kept("cores", f"{total} vCPUs in all")
    keys.changed("sockets", "one socket with all cores")
    keys.changed("smp", f"{total} vCPUs")
    keys.changed("vcpus", f"all {total} vCPUs are there from the start")
    return total or 1


def _memory(guest: ReadGuest) -> int:
    keys = guest.keys
    options = properties(keys.get("memory", str(_DEFAULT_MIB)), "current")
    mib = whole(options.get("current", ""), 1 << 30)
    if not mib:
        guest.problems.append(f"memory: {shown(keys.get('memory'))} is not a number of MiB")
    keys.kept("memory", f"{mib} MiB")
    balloon = whole(keys.get("balloon"))
    if balloon in {0, mib}:
        keys.kept("balloon", "the VM has all its memory, always")
    else:
        keys.lost("balloon", "the VM has all its memory, always: none of it goes to others")
    return mib or _DEFAULT_MIB


def _hugepages(guest: ReadGuest) -> int | None:
    keys = guest.keys
    given = keys.get("hugepages")
    mib = whole(properties(keys.get("memory", "512"), "current").get("current", ""), 1 << 30) or 0
    if given == "any":
        keys.changed("hugepages", "pages of 2 MiB")
        return _MIB_PAGES["2"]
    kib = _MIB_PAGES.get(given)
    if kib is None:
        keys.lost("hugepages", "ordinary pages")
        return None
    if mib % (kib >> 10):
        keys.changed("hugepages", f"pages of 2 MiB: {mib} MiB are no whole number of larger ones")
        return _MIB_PAGES["2"] if mib % 2 == 0 else None
    keys.kept("hugepages", f"pages of {given} MiB")
    return kib


def _firmware(guest: ReadGuest) -> str:
    uefi = guest.keys.get("bios", "seabios") == "ovmf"
    guest.keys.kept("bios", "UEFI" if uefi else "BIOS")
    return "uefi" if uefi else "bios"


def _machine(guest: ReadGuest) -> None:
    keys = guest.keys
    options = properties(keys.get("machine"), "type")
    kind = options.pop("type", "")
    keys.add_options("machine", options)
    if kind == "q35":
        keys.kept("machine", "q35")
    elif "q35" in kind:
        keys.changed("machine", "q35 in the version of the host's QEMU")
    else:
        text = "q35: the guest sees its devices at other PCI addresses (names of NICs may change)"
        keys.changed("machine", text)
    for name in options:
        keys.lost(f"machine.{name}", "no key for it")


def _cpu(guest: ReadGuest) -> str:
    keys = guest.keys
    options = properties(keys.get("cpu"), "cputype")
    kind = options.pop("cputype", "")
    keys.add_options("cpu", options)
    for name in options:
        keys.lost(f"cpu.{name}", "the CPU is the host's own, or the named one, without changes")
    if kind == "host":
        keys.kept("cpu", "the host's own CPU")
    elif _LIBVIRT_CPU.fullmatch(kind):
        keys.kept("cpu", f"CPU model {shown(kind)}")
        return kind
    else:
        keys.changed("cpu", f"the host's own CPU, in place of {shown(kind) or 'the default'}")
    return ""


def _shares(guest: ReadGuest) -> int | None:
    units = whole(guest.keys.get("cpuunits"))
    if units is None or units < _LEAST_SHARES:
        guest.keys.lost("cpuunits", "the default weight")
        return None
    if units > _MOST_SHARES:
        guest.keys.changed("cpuunits", f"a weight of {_MOST_SHARES}, the most")
        return _MOST_SHARES
    guest.keys.kept("cpuunits", f"a weight of {units}")
    return units


def _agent(guest: ReadGuest) -> bool:
    keys = guest.keys
    options = properties(keys.get("agent"), "enabled")
    on = is_on(options.pop("enabled", ""))
    keys.add_options("agent", options)
    keys.kept("agent", "a channel for the guest's agent" if on else "no agent")
    if options.get("type", "virtio") == "virtio":
        keys.kept("agent.type", "a virtio channel")
    else:
        keys.changed("agent.type", "a virtio channel")
    for name in options:
        keys.lost(f"agent.{name}", "no key for it")
    return on


def _audio(guest: ReadGuest) -> bool:
    keys = guest.keys
    for key in keys.numbered("audio"):
        keys.changed(key, "an ICH9 sound card, which a VNC viewer can play")
    return "audio0" in keys


def _autostart(guest: ReadGuest) -> bool:
    on = is_on(guest.keys.get("onboot"))
    guest.keys.kept("onboot", "starts with its host" if on else "does not start with its host")
    return on


def _uuid(guest: ReadGuest) -> str:
    keys = guest.keys
    options = properties(keys.get("smbios1"), "uuid")
    keys.add_options("smbios1", options)
    uuid = options.get("uuid", "").lower()
    if not _UUID.fullmatch(uuid) or not int(uuid.replace("-", ""), 16):
        keys.lost("smbios1.uuid", "no UUID of a machine: the VM gets one of its own")
        uuid = ""
    keys.kept("smbios1.uuid", "the machine's UUID")
    keys.kept("smbios1.base64", "how the other values are written")
    for name in options:
        keys.lost(f"smbios1.{name}", "the machine names no manufacturer, product or serial number")
    keys.kept("smbios1", "the machine's UUID" if uuid else "nothing of it")
    return uuid


def _labels(guest: ReadGuest) -> tuple[tuple[str, str], ...]:
    tags = list(dict.fromkeys(re.split(r"[;, ]+", guest.keys.get("tags").strip())))
    fit = [each for each in tags if _LABEL.fullmatch(each)][:32]
    if fit == [each for each in tags if each]:
        guest.keys.kept("tags", "labels tag/NAME: yes")
    else:
        guest.keys.changed("tags", "labels tag/NAME: yes, of the tags that can be labels")
    pairs = [("taken-over-as", guest.id)] if guest.id else []
    return (*pairs, *((f"tag/{each}".rstrip("._-"), "yes") for each in fit))


def _rest(guest: ReadGuest) -> None:
    """The keys of which nothing is read."""
    keys = guest.keys
    if is_on(keys.get("kvm", "1")):
        keys.kept("kvm", "KVM where the host has it")
    else:
        keys.changed("kvm", "KVM where the host has it")
    if is_on(keys.get("acpi", "1")):
        keys.kept("acpi", "ACPI")
    else:
        keys.changed("acpi", "ACPI: every VM has it")
    if whole(keys.get("cpulimit")) == 0:
        keys.kept("cpulimit", "no limit")
    for key in keys:
        stem = key.rstrip("0123456789")
        if key in SAME_KEYS:
            keys.kept(key, SAME_KEYS[key])
        elif key in FIRST_BOOT or stem == "ipconfig":
            keys.lost(key, "the guest had its first boot: what cloud-init set is on its disk")
        elif key in LOST_KEYS or (stem in LOST_KEYS and stem != key):
            keys.lost(key, LOST_KEYS.get(key) or LOST_KEYS[stem])
        elif key == DESCRIPTION:
            keys.lost(key, "the description: no key for it")
        elif key.startswith("["):
            keys.lost(key, _section_text(key, keys.get(key)))
        elif key.startswith("line "):
            keys.lost(key, "no line KEY: VALUE")


def _section_text(key: str, names: str) -> str:
    if key.upper() == "[PENDING]":
        return f"changes that wait for the guest's next start there: {shown(names.strip())}"
    if key.startswith("[special:"):
        return "what that manager keeps for itself"
    return "a snapshot: it stays there; the disks come as they are now"


# What each stands for there, and whether the machine must have secure boot and a TPM already.
_SYSTEMS = {
    "win10": ("windows-10", False, "Windows 10, Server 2016 and 2019"),
    "win11": ("windows-11", True, "Windows 11, Server 2022 and 2025"),
}


def _system(guest: ReadGuest, found: GuestDescription) -> str:
    """The guest's system, where its machine here is the one that it had there, with more that the
    host can do; empty where it would be another one.
    """
    keys = guest.keys
    local = is_on(keys.get("localtime", "1" if guest.windows else "0"))
    name, strict, stands_for = _SYSTEMS.get(keys.get("ostype"), ("", False, ""))
    if name and local and (not strict or (found.secure_boot and found.tpm)):
        keys.changed("ostype", f"os: {name}; there it stands for {stands_for}")
        keys.kept("localtime", "the machine's clock is in local time")
        return name
    _clock(guest, local=local, lacks="secure boot and a TPM" if name and local else "")
    return ""


def _clock(guest: ReadGuest, *, local: bool, lacks: str) -> None:
    keys = guest.keys
    if guest.windows:
        text = "the same machine for every guest" + ("; its clock is in UTC" if local else "")
        text += ": Windows needs RealTimeIsUniversal=1" if local else ""
        text += f"; os: is left out, as it has not {lacks}" if lacks else ""
        keys.changed("ostype", text)
    else:
        keys.kept("ostype", "the same machine for every guest")
    if local:
        keys.changed("localtime", "the machine's clock is in UTC")
    else:
        keys.kept("localtime", "the machine's clock is in UTC")

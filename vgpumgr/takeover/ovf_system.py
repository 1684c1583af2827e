"""A virtual system of an OVF descriptor (DMTF DSP0243) as a VM; an OVA is a tar file with one."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lxml import etree

from vgpumgr import catalog
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import NicTuning
from vgpumgr.model.formats import exact_size
from vgpumgr.model.vm import GpuRequest
from vgpumgr.model.vm_devices import NicSpec
from vgpumgr.takeover.guest_description import GuestDescription, SourceDisk, Unreadable
from vgpumgr.takeover.source_keys import SourceKeys, shown, whole
from vgpumgr.takeover.takeover_choices import NONE, TakeoverChoices

MAX_KEYS = 2_000
_NAMESPACES = ("http://schemas.dmtf.org/ovf/envelope/1", "http://schemas.dmtf.org/ovf/envelope/2")
_POWER = re.compile(r"byte\s*\*\s*2\^([0-9]{1,2})")
_WORDS = {"bytes": 0, "byte": 0, "kilobytes": 10, "megabytes": 20, "mb": 20, "gigabytes": 30}
_MOST_BYTES = 1 << 50
_HOST_RESOURCE = re.compile(r"(?:ovf:)?/(disk|file)/(.{1,255})")
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+ -]{0,200}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)
_VGPU = re.compile(r"pciPassthru[0-9]{1,2}\.vgpu")
_CPU, _MEMORY, _NIC, _DISK, _SCREEN, _SOUND = "3", "4", "10", "17", "24", "35"
_OTHER_ITEMS: Mapping[str, str] = {
    "5": "disks are virtio disks, without a controller",
    "6": "disks are virtio disks, without a controller",
    "20": "disks are virtio disks, without a controller",
    "14": "no floppy drive",
    "15": "no CD drive, unless cds: names an image",
    "16": "no DVD drive, unless cds: names an image",
    "23": "no USB controller but for the screen's tablet",
}
_SECTIONS: Mapping[str, str] = {
    "OperatingSystemSection": "the same machine for every guest",
    "System": "the kind of machine follows from the fleet",
}


@dataclass(slots=True)
class ReadSystem:
    """A virtual system as far as it was read."""

    choices: TakeoverChoices
    keys: SourceKeys
    elements: dict[str, etree._Element]
    problems: list[str] = field(default_factory=list)

    def items(self, kind: str) -> Iterator[tuple[str, etree._Element]]:
        """The items of hardware of that resource type."""
        for key, element in self.elements.items():
            if key.startswith("Item ") and _text(element, "ResourceType") == kind:
                yield key, element

    def config(self, name: str) -> str:
        """The value of a ``Config`` or ``ExtraConfig`` of VMware's; empty where there is none."""
        for key in (f"Config {name}", f"ExtraConfig {name}"):
            if key in self.keys:
                return self.keys.get(key)
        return ""


def read(source: str, text: str, choices: TakeoverChoices) -> GuestDescription:
    """The one virtual system of a descriptor; Unreadable."""
    envelope = _envelope(text)
    system = next((each for each in envelope if _tag(each) == "VirtualSystem"), None)
    if system is None:
        raise Unreadable("it holds no VirtualSystem, or several: write an OVF for each VM")
    elements = _elements(envelope, system)
    if len(elements) > MAX_KEYS:
        raise Unreadable(f"more than {MAX_KEYS} sections and items")
    keys = SourceKeys({key: _attribute(each, "value") for key, each in elements.items()})
    found = ReadSystem(choices, keys, elements)
    title = _text(system, "Name") or _attribute(system, "id") or source
    firmware = _firmware(found)
    description = GuestDescription(
        source=source,
        title=title,
        vcpus=_amount(found, _CPU, "vCPUs", lambda number, _: number),
        memory_mib=_amount(found, _MEMORY, "MiB", lambda number, unit: (number * unit) >> 20),
        gpus=tuple(_gpus(found)),
        disks=tuple(_disks(found)),
        nics=tuple(_nics(found)),
        firmware=firmware,
        secure_boot=_secure_boot(found, firmware),
        console=_screen(found),
        audio=_sound(found),
        uuid=_uuid(found),
        stop="shut it down in its manager",
        problems=tuple(found.problems),
    )
    _rest(found)
    return replace(description, findings=keys.findings())


def _envelope(text: str) -> etree._Element:
    fault = ""
    for namespace in _NAMESPACES:
        try:
            return untrusted(text, f"{{{namespace}}}Envelope")
        except ValueError as error:
            fault = fault or str(error)
    raise Unreadable(fault)


def _elements(envelope: etree._Element, system: etree._Element) -> dict[str, etree._Element]:
    """Every part of it by what people would call it."""
    found: dict[str, etree._Element] = {}

    def put(name: str, element: etree._Element) -> None:
        place, number = name, 2
        while place in found:
            place, number = f"{name} ({number})", number + 1
        found[place] = element

    for section in envelope:
        match _tag(section):
            case "References":
                for each in section:
                    put(f"File {_attribute(each, 'id')}", each)
            case "DiskSection":
                for each in _but_info(section):
                    put(f"Disk {_attribute(each, 'diskId')}", each)
            case "NetworkSection":
                for each in _but_info(section):
                    put(f"Network {_attribute(each, 'name')}", each)
            case "VirtualSystem" | "Info":
                pass
            case other:
                put(other, section)
    for section in _but_info(system):
        if _tag(section) != "VirtualHardwareSection":
            put(_tag(section), section)
            continue
        for each in _but_info(section):
            put(_hardware_key(each), each)
    return found


def _but_info(section: etree._Element) -> Iterator[etree._Element]:
    return (each for each in section if _tag(each) != "Info")


def _hardware_key(element: etree._Element) -> str:
    match _tag(element):
        case "Item" | "StorageItem" | "EthernetPortItem":
            return f"Item {_text(element, 'InstanceID') or _text(element, 'ElementName')}"
        case "Config" | "ExtraConfig" as kind:
            return f"{kind} {_attribute(element, 'key')}"
        case other:
            return other


def _tag(element: etree._Element) -> str:
    return etree.QName(element).localname


def _attribute(element: etree._Element, name: str) -> str:
    """By its name without its namespace."""
    found = (value for key, value in element.attrib.items() if etree.QName(key).localname == name)
    return str(next(found, ""))


def _text(element: etree._Element, name: str) -> str:
    found = next((each for each in element if _tag(each) == name), None)
    return (found.text or "").strip() if found is not None else ""


def _unit(text: str, default: int = 0) -> int | None:
    """``byte * 2^20`` → 1048576; None for a unit that is not known."""
    word = text.strip().lower()
    if not word:
        return 1 << default
    if match := _POWER.fullmatch(word):
        return 1 << int(match[1]) if int(match[1]) <= 50 else None
    return 1 << _WORDS[word] if word in _WORDS else None


def _amount(found: ReadSystem, kind: str, what: str, amount: Callable[[int, int], int]) -> int:
    total = 0
    for key, item in found.items(kind):
        number = whole(_text(item, "VirtualQuantity"), 1 << 40)
        unit = _unit(_text(item, "AllocationUnits"), 20) if kind == _MEMORY else 1
        if not number or unit is None:
            found.problems.append(f"{shown(key)}: no number of {what} that is known")
            found.keys.lost(key, f"no number of {what} that is known")
            continue
        total += amount(number, unit)
        found.keys.kept(key, f"{amount(number, unit)} {what}")
    return total if total <= 1 << 40 else 0


def _firmware(found: ReadSystem) -> str:
    uefi = found.config("firmware").lower() == "efi"
    for kind in ("Config", "ExtraConfig"):
        found.keys.kept(f"{kind} firmware", "UEFI" if uefi else "BIOS")
    return "uefi" if uefi else "bios"


def _secure_boot(found: ReadSystem, firmware: str) -> bool:
    name = "bootOptions.efiSecureBootEnabled"
    on = found.config(name).lower() == "true" and firmware == "uefi"
    for kind in ("Config", "ExtraConfig"):
        found.keys.kept(f"{kind} {name}", "secure boot" if on else "no secure boot")
    return on


def _uuid(found: ReadSystem) -> str:
    key = "ExtraConfig uuid.bios"
    digits = re.sub(r"[ -]", "", found.keys.get(key)).lower()
    if not re.fullmatch(r"[0-9a-f]{32}", digits) or not int(digits, 16):
        found.keys.lost(key, "no UUID of a machine")
        return ""
    found.keys.kept(key, "the machine's UUID")
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)


def _screen(found: ReadSystem) -> bool:
    keys = [key for key, _ in found.items(_SCREEN)]
    for key in keys:
        found.keys.changed(key, "a screen over VNC, for vgpumgr vm connect")
    return bool(keys)


def _sound(found: ReadSystem) -> bool:
    keys = [key for key, _ in found.items(_SOUND)]
    for key in keys:
        found.keys.changed(key, "an ICH9 sound card, which a VNC viewer can play")
    return bool(keys)


def _disks(found: ReadSystem) -> Iterator[SourceDisk]:
    for number, (key, item) in enumerate(found.items(_DISK)):
        name = _text(item, "HostResource")
        match = _HOST_RESOURCE.fullmatch(name)
        disk = found.elements.get(f"Disk {match[2]}") if match and match[1] == "disk" else None
        file = _file_of(found, match, disk)
        if file is None:
            found.keys.lost(key, f"no file of it is named: {shown(name)}")
            found.problems.append(f"{shown(key)}: the descriptor names no file of its disk")
            continue
        size = _capacity(disk) if disk is not None else 0
        href = _attribute(file, "href")
        said = exact_size(size) if size else "its size"
        found.keys.changed(key, f"a virtio disk of {said}, copied from {shown(href)}")
        if match:
            found.keys.kept(f"Disk {match[2]}", said)
        _name_file(found, file, href)
        yield _source_disk(f"disk{number}", href, size)


def _file_of(
    found: ReadSystem, match: re.Match[str] | None, disk: etree._Element | None
) -> etree._Element | None:
    if match is None:
        return None
    reference = _attribute(disk, "fileRef") if disk is not None else match[2]
    return found.elements.get(f"File {reference}")


def _name_file(found: ReadSystem, file: etree._Element, href: str) -> None:
    key = f"File {_attribute(file, 'id')}"
    if _attribute(file, "chunkSize") or _attribute(file, "compression"):
        found.keys.lost(key, "it comes in pieces, or compressed")
        found.problems.append(f"{shown(href)} comes in pieces or compressed: put it together first")
    else:
        found.keys.kept(key, "the disk's data")


def _capacity(disk: etree._Element) -> int:
    number = whole(_attribute(disk, "capacity"), _MOST_BYTES)
    unit = _unit(_attribute(disk, "capacityAllocationUnits"))
    size = number * unit if number and unit else 0
    return size if size <= _MOST_BYTES else 0


def _source_disk(key: str, href: str, size: int) -> SourceDisk:
    name = posixpath.basename(href)
    stem = name.rpartition(".")[0] or name
    stems = tuple(each for each in (stem, name) if _STEM.fullmatch(each))
    to = f"FOLDER/{stems[0]}.qcow2" if stems else f"FOLDER/{key}.qcow2"
    # A bare name could be an option of qemu-img's, or a protocol (json:, nbd:).
    fetch = f"qemu-img convert -O qcow2 {shlex.quote(f'./{name}')} {shlex.quote(to)}"
    return SourceDisk(key=key, volume=href, stems=stems, size_bytes=size, fetch=fetch)


def _nics(found: ReadSystem) -> Iterator[NicSpec]:
    for key, item in found.items(_NIC):
        network = _text(item, "Connection")
        found.keys.kept(f"Network {network}", "what stands for it is said by --bridge")
        if network not in found.choices.bridges:
            example = shlex.quote(f"{network}=BRIDGE")
            found.problems.append(
                f"{shown(key)}: nothing says which bridge {shown(network)} is: --bridge "
                f"{shown(example)}"
            )
            found.keys.lost(key, "no bridge is known for it")
            continue
        kind = _text(item, "ResourceSubType")
        model = "e1000e" if kind.lower().startswith(("e1000", "pcnet")) else "virtio"
        mac = _text(item, "Address").lower()
        if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1:
            mac = ""
        nic = found.choices.nic(network)
        told = f"MAC address {mac} kept" if mac else "with a MAC address of its own"
        found.keys.changed(key, f"{model} in place of {shown(kind) or 'a NIC'}, {told}")
        yield NicSpec(
            bridge=nic.bridge, network=nic.network, mac=mac, tuning=NicTuning(model=model)
        )


def _gpus(found: ReadSystem) -> Iterator[GpuRequest]:
    for key in found.keys:
        kind, _, name = key.partition(" ")
        if kind != "ExtraConfig" or not _VGPU.fullmatch(name):
            continue
        value = found.keys.get(key)
        chosen = found.choices.chosen((value,))
        profile = catalog.normalise(value.removeprefix("grid_").upper())
        if chosen is None and profile in catalog.profiles():
            chosen = GpuRequest(profile=profile)
        if isinstance(chosen, GpuRequest):
            found.keys.kept(key, f"{chosen.profile}, on a GPU that placement chooses")
            yield chosen
        elif chosen == NONE:
            found.keys.lost(key, "left out, as was chosen")
        else:
            found.keys.lost(key, f"nothing says which profile {shown(value)} is")
            found.problems.append(
                f"nothing says which profile {shown(value)} is: --gpu {shown(value)}=PROFILE"
            )


def _rest(found: ReadSystem) -> None:
    """What is left of it."""
    for key, element in found.elements.items():
        tag = _tag(element)
        kind = _text(element, "ResourceType")
        if tag in {"Item", "StorageItem", "EthernetPortItem"} and kind in _OTHER_ITEMS:
            found.keys.changed(key, _OTHER_ITEMS[kind])
        elif tag in {"Item", "StorageItem", "EthernetPortItem"}:
            found.keys.lost(key, f"no key for hardware of type {shown(kind) or 'none'}")
        elif tag in _SECTIONS:
            found.keys.changed(key, _SECTIONS[tag])
        elif key.startswith(("File ", "Disk ", "Network ")):
            found.keys.lost(key, "no item of hardware uses it")
        elif tag in {"Config", "ExtraConfig"}:
            found.keys.lost(key, "a setting of its manager's")
        elif tag == "Name":
            found.keys.kept(key, "the VM's name, in lower-case letters, digits and hyphens")
        else:
            found.keys.lost(key, "no key for it")

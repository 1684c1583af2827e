"""Text of Proxmox VE: a guest's configuration, its property strings, and resource mappings.

The forms are those of its documentation (qm.conf(5)): ``KEY: VALUE`` lines, ``#`` lines that are
the description, and sections in brackets for snapshots and pending changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vgpumgr.takeover.guest_description import MAX_TEXT, Unreadable
from vgpumgr.takeover.source_keys import SourceKeys, shown
from vgpumgr.takeover.takeover_choices import MappedDevice, TakeoverChoices

MAX_LINES = 10_000
MAX_KEYS = 1_000
DESCRIPTION = "#"

_LINE = re.compile(r"([a-z][a-z0-9_-]*):[ \t]*(.*?)[ \t]*")
_SECTION = re.compile(r"\[([^\]]{1,128})\][ \t]*")
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]"
)
_IDS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}", re.IGNORECASE)


# What Proxmox VE writes for each guest that it makes, some of them at least.
_USUAL = frozenset(
    {
        *("agent", "bios", "boot", "cores", "cpu", "hostpci0", "machine", "memory", "meta", "name"),
        *("net0", "numa", "ostype", "scsi0", "scsihw", "smbios1", "sockets", "vga", "virtio0"),
        "vmgenid",
    }
)
_WINDOWS = frozenset({"wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11"})


@dataclass(slots=True)
class ReadGuest:
    """A guest as far as it was read, and what keeps it from being taken over. ``id`` is its number,
    empty where its file's name does not say it.
    """

    keys: SourceKeys
    choices: TakeoverChoices
    id: str
    problems: list[str] = field(default_factory=list)

    @property
    def windows(self) -> bool:
        """Whether the source says that the guest is Windows."""
        return self.keys.get("ostype") in _WINDOWS


@dataclass(slots=True)
class ProxmoxConfig:
    """``values`` are the guest's keys, and what else has to be named: ``#`` for the description,
    ``[NAME]`` for a section, ``line 7`` for a line that is none. ``problems`` are keys given twice.
    """

    values: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def parse(text: str) -> ProxmoxConfig:
    """Read a configuration; Unreadable for a text that is none, or too long."""
    config, section = ProxmoxConfig(), ""
    for number, line in enumerate(lines_of(text), start=1):
        if not line.strip():
            continue
        if line.startswith("#"):
            config.values.setdefault(section or DESCRIPTION, "")
        elif match := _SECTION.fullmatch(line):
            section = f"[{match[1]}]"
            config.values.setdefault(section, "")
        elif section:
            config.values[section] += f"{line.partition(':')[0]} "
        else:
            _take(config, number, line)
        if len(config.values) > MAX_KEYS:
            raise Unreadable(f"more than {MAX_KEYS} keys: at line {number}")
    if not any(_is_key(each) for each in config.values):
        raise Unreadable("no line of it is KEY: VALUE, as qm config prints it")
    if _USUAL.isdisjoint(config.values):
        raise Unreadable("it has none of the keys that every guest's configuration has")
    return config


def lines_of(text: str) -> list[str]:
    """Its lines; Unreadable where there are too many, or control characters."""
    if len(text) > MAX_TEXT:
        raise Unreadable("longer than 1 MiB")
    if found := _FORBIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise Unreadable(f"line {line} has a control character: {found.group()!a}")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(lines) > MAX_LINES:
        raise Unreadable(f"more than {MAX_LINES} lines")
    return lines


def _take(config: ProxmoxConfig, number: int, line: str) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        config.values[f"line {number}"] = line
        return
    if match[1] in config.values:
        config.problems.append(f"line {number}: {shown(match[1])} is given twice")
    config.values[match[1]] = match[2]


def _is_key(name: str) -> bool:
    return name[0].islower() and not name.startswith("line ")


def properties(text: str, first: str) -> dict[str, str]:
    """``A,b=c`` → ``{first: A, b: c}``. The first part may come without its name; a part that is
    none is kept under its own text.
    """
    found: dict[str, str] = {}
    for number, part in enumerate(text.split(",") if text else ()):
        name, equals, value = part.strip().partition("=")
        if not equals and number == 0:
            name, value = first, name
        if name:
            found.setdefault(name, value)
    return found


def mapped_devices(text: str) -> dict[str, tuple[MappedDevice, ...]]:
    """The devices of ``/etc/pve/mapping/pci.cfg`` by the name of their mapping; Unreadable."""
    found: dict[str, tuple[MappedDevice, ...]] = {}
    name = ""
    for line in lines_of(text):
        if line and not line[0].isspace() and not line.startswith("#"):
            name = line.strip()
            found.setdefault(name, ())
        elif name and line.strip().startswith("map "):
            given = properties(line.strip().removeprefix("map ").strip(), "")
            if _IDS.fullmatch(given.get("id", "")):
                subsystem = given.get("subsystem-id", "").lower()
                device = MappedDevice(vendor_device=given["id"].lower(), subsystem=subsystem)
                found[name] = (*found[name], device)
    return found

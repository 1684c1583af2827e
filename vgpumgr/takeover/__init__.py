"""VMs of other managers, read as VMs of ours, and what is kept, changed and lost of each.

Pure: the text of a description comes in, no file is opened and no host is asked. Each source
(Proxmox VE, OVF, libvirt) has its own reader; all of them name every key of the text exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from vgpumgr.takeover import libvirt_domain, ovf_system, proxmox_guest
from vgpumgr.takeover.guest_description import GuestDescription, Unreadable
from vgpumgr.takeover.source_keys import Fate, SourceFinding, escaped
from vgpumgr.takeover.taken_vm import FleetVm, TakenDisk, TakenVm, short_name, taken_vms
from vgpumgr.takeover.takeover_choices import TakeoverChoices

__all__ = [
    "SOURCES",
    "Fate",
    "FleetVm",
    "GuestDescription",
    "SourceFinding",
    "TakenDisk",
    "TakenVm",
    "TakeoverChoices",
    "Unreadable",
    "read",
]

SOURCES: Mapping[str, Callable[[str, str, TakeoverChoices], GuestDescription]] = MappingProxyType(
    {
        "proxmox": proxmox_guest.read,
        "ovf": ovf_system.read,
        "libvirt": libvirt_domain.read,
    }
)
"""What reads a description of each kind: its name, its text, and what the operator chose."""


def read(
    kind: str,
    texts: Sequence[tuple[str, str]],
    choices: TakeoverChoices,
    fleet: Sequence[FleetVm] = (),
) -> tuple[TakenVm, ...]:
    """The VMs of descriptions, each a name and a text, in their order; ``kind`` is one of SOURCES.

    A text that cannot be read is a VM with that problem, never an error. ``fleet`` are the VMs that
    there are: one with the same UUID, or the same name and MAC addresses, was taken over before.
    """
    described = [_described(SOURCES[kind], name, text, choices) for name, text in texts]
    return taken_vms(described, choices, fleet)


def _described(
    reader: Callable[[str, str, TakeoverChoices], GuestDescription],
    name: str,
    text: str,
    choices: TakeoverChoices,
) -> GuestDescription:
    try:
        return reader(name, text, choices)
    except Unreadable as error:
        return GuestDescription(
            source=name, title=short_name(name), problems=(escaped(str(error)),)
        )

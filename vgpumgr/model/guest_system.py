"""What an operating system asks of the machine that it is installed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class GuestFamily(StrEnum):
    """What prepares a guest at its first boot: cloud-init, or the set-up of Windows."""

    LINUX = "linux"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class HypervFeature:
    """One of the Hyper-V interfaces that KVM offers a guest, by libvirt's name for it.
    ``attributes`` are those of its element, but for its state.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSystem:
    """An operating system by the ``name`` that files have for it; ``id`` is libosinfo's.

    ``localtime``: it takes the hardware clock for local time. ``timers`` are the ones that it needs
    and that are not there by default. ``needs`` are the switches of a VM without which it does not
    start or is not supported, ``firmware`` the one that it takes (empty: any). Less than
    ``least_memory_mib`` or ``least_vcpus`` its installation refuses. ``drivers`` is its folder on
    the CD of VirtIO drivers. ``distribution`` says whose packages it has; empty for none.
    """

    name: str
    title: str
    family: GuestFamily
    id: str
    distribution: str = ""
    localtime: bool = False
    timers: tuple[str, ...] = ()
    hyperv: tuple[HypervFeature, ...] = ()
    needs: tuple[str, ...] = ()
    firmware: str = ""
    least_memory_mib: int = 0
    least_vcpus: int = 1
    drivers: str = ""

    @property
    def is_windows(self) -> bool:
        """Is it of Microsoft's?"""
        return self.family is GuestFamily.WINDOWS

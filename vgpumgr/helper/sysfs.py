"""Small reads of sysfs (OSError where the kernel refuses one), and waits with a deadline."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from vgpumgr.helper import errors
from vgpumgr.helper.system import System

PCI_DEVICES = "/sys/bus/pci/devices"


def text(system: System, path: str) -> str:
    """A file's text without white space around it."""
    return system.read(path).strip()


def optional_text(system: System, path: str) -> str | None:
    """As ``text``; None where the file does not exist."""
    try:
        return text(system, path)
    except FileNotFoundError:
        return None


def target(system: System, path: str) -> str | None:
    """The last name a link points to (a driver, a group, a type); None without a link."""
    link = system.link(path)
    return None if link is None else posixpath.basename(link)


def iommu_group(system: System, device: str) -> int | None:
    """The number of a device's IOMMU group, or None when it is in none."""
    group = target(system, f"{device}/iommu_group")
    return None if group is None else int(group)


def held(system: System, group: int | None) -> bool:
    """Whether a guest (any VFIO user) holds the group: opening it says EBUSY."""
    return group is not None and system.busy(f"/dev/vfio/{group}")


def held_if_told(system: System, group: int | None) -> bool | None:
    """As ``held``; None where we may not ask."""
    try:
        return held(system, group)
    except OSError:
        return None


def effect(system: System, path: str, value: str, message: str) -> None:
    """Write to the kernel; its refusal becomes an error that says ``message``."""
    try:
        system.write(path, value)
    except OSError as error:
        raise errors.from_effect(error, message) from error


_PAUSE = 0.1


def wait_until(
    system: System, done: Callable[[], bool], seconds: float, pause: float = _PAUSE
) -> bool:
    """Whether ``done`` came true within ``seconds``; it is asked at least once."""
    for _ in range(round(seconds / pause)):
        if done():
            return True
        system.wait(pause)
    return done()

"""What libvirt knows since when. An unknown version counts as the oldest."""

from __future__ import annotations

# Element or value → first libvirt release with it (libvirt's formatdomain documentation).
_SINCE = {
    "cpu mode=maximum": (7, 1, 0),
    "os/firmware/feature": (7, 2, 0),
    "cpu/maxphysaddr": (8, 7, 0),
    "watchdog itco": (9, 1, 0),
    "vendor driver of a VF": (9, 7, 0),
    "hostdev pci display": (10, 3, 0),
}


def knows(libvirt: str, what: str) -> bool:
    """Does a libvirt of this version (``9.0.0``) know ``what``, a key of the table above?"""
    return _numbers(libvirt) >= _SINCE[what]


def missing(libvirt: str) -> tuple[str, ...]:
    """What of the table above a libvirt of this version does not know."""
    return tuple(what for what in _SINCE if not knows(libvirt, what))


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()

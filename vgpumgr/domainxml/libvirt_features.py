"""Features of libvirt by version, and its own RNG schema where that is installed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from lxml import etree

from vgpumgr.domainxml.xml_tree import untrusted

# Element or value → first libvirt release with it (libvirt's formatdomain documentation).
_SINCE = {
    "cpu mode=maximum": (7, 1, 0),
    "audio backend": (7, 2, 0),
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


SCHEMA_DIR = Path("/usr/share/libvirt/schemas")
_LOCK = Lock()  # a compiled schema keeps the log of its last validation


@dataclass(frozen=True, slots=True)
class Validation:
    """``problems`` with line numbers; ``checked`` is False where there was no schema to ask."""

    problems: tuple[str, ...] = ()
    checked: bool = True


def validate(xml: str, schema_dir: Path = SCHEMA_DIR, *, libvirt: str = "") -> Validation:
    """Check domain XML against libvirt's schema; ValueError where it is no domain at all.

    What ``libvirt``, a host's version, knows is no problem where the schema here is an older one.
    """
    domain = untrusted(xml, "domain")
    _drop_newer(domain, libvirt)
    with _LOCK:
        schema = _compiled(schema_dir)
        if schema is None:
            return Validation(checked=False)
        schema.validate(domain)
        return Validation(tuple(f"line {e.line}: {e.message}" for e in schema.error_log))


def without_newer(xml: str, libvirt: str) -> str:
    """The domain less what that libvirt knows and the one of this machine may not."""
    domain = untrusted(xml, "domain")
    _drop_newer(domain, libvirt)
    return etree.tostring(domain, encoding="unicode") + "\n"


def _drop_newer(domain: etree._Element, libvirt: str) -> None:
    if knows(libvirt, "hostdev pci display"):
        for hostdev in domain.iterfind("devices/hostdev[@type='pci']"):
            hostdev.attrib.pop("display", "")
            hostdev.attrib.pop("ramfb", "")
    if knows(libvirt, "watchdog itco"):
        for devices in domain.iterfind("devices"):
            for watchdog in devices.findall("watchdog[@model='itco']"):
                devices.remove(watchdog)


@cache
def _compiled(schema_dir: Path) -> etree.RelaxNG | None:
    path = schema_dir / "domain.rng"
    return etree.RelaxNG(etree.parse(path)) if path.exists() else None

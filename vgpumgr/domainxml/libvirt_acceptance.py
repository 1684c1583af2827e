"""What a host's libvirt makes of domain XML: the features it knows, its schema, what it drops."""

from __future__ import annotations

from collections.abc import Iterator
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
    "hyperv avic": (8, 10, 0),
    "watchdog itco": (9, 1, 0),
    "vendor driver of a VF": (9, 7, 0),
    "hostdev pci display": (10, 3, 0),
    "vlan on a bridge": (11, 0, 0),
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


# Devices libvirt never adds by itself: one more than asked for is somebody's change.
_NEVER_ADDED = {"disk", "interface", "hostdev", "graphics", "filesystem", "redirdev"}
# Where a device says which one it is, and the attributes that say it.
_IDENTITY = {
    "source/address": ("uuid", "domain", "bus", "slot", "function"),
    "mac": ("address",),
    "target": ("dev",),
}


def differences(sent: str, read_back: str) -> tuple[str, ...]:
    """What ``read_back`` lacks or has otherwise than ``sent`` asked, one sentence each.

    Tolerant of what libvirt adds: addresses, aliases, controllers, defaults, a chosen firmware,
    a machine version. Raises ValueError where either text is no domain.
    """
    asked, got = untrusted(sent, "domain"), untrusted(read_back, "domain")
    return (*_element(asked, got, ""), *_additions(asked, got))


def _element(asked: etree._Element, got: etree._Element, path: str) -> Iterator[str]:
    for name, value in asked.attrib.items():
        attribute, wish = str(name), str(value)
        found = got.get(attribute)
        if found != wish and not _equivalent(path, attribute, wish, got):
            yield f"{path}/@{attribute}: asked for {wish!r}, got {found!r}"
    wish, text = (asked.text or "").strip(), (got.text or "").strip()
    if wish and wish != text:
        yield f"{path}: asked for {wish!r}, got {text!r}"
    yield from _children(asked, got, path)


def _equivalent(path: str, attribute: str, value: str, got: etree._Element) -> bool:
    """Whether libvirt prints the same request in another spelling."""
    if (path, attribute) == ("/os/type", "machine"):
        return got.get("machine", "").startswith(f"pc-{value}-")
    if (path, attribute) == ("/os", "firmware"):
        return got.find("loader[@type='pflash']") is not None
    return False


def _children(asked: etree._Element, got: etree._Element, path: str) -> Iterator[str]:
    """Exact matches first, so that a changed twin is never paired with an unchanged one's."""
    free = list(got)
    unmatched = []
    for child in asked:
        twin = next((each for each in free if _matches(child, each, path)), None)
        if twin is None:
            unmatched.append(child)
        else:
            free.remove(twin)
    for child in unmatched:
        here = f"{path}/{_label(child)}"
        nearest = _nearest(child, free, path)
        if nearest is None:
            yield f"{here}: dropped"
        else:
            free.remove(nearest)
            yield from _element(child, nearest, here)


def _matches(asked: etree._Element, got: etree._Element, path: str) -> bool:
    if asked.tag != got.tag:
        return False
    return next(_element(asked, got, f"{path}/{asked.tag}"), None) is None


def _nearest(asked: etree._Element, free: list[etree._Element], path: str) -> etree._Element | None:
    alike = [each for each in free if each.tag == asked.tag and _label(each) == _label(asked)]
    return min(alike, key=lambda each: len(list(_element(asked, each, path))), default=None)


def _label(element: etree._Element) -> str:
    """The tag, and for a device what tells it from its like."""
    tag = str(element.tag).rpartition("}")[2]
    for path, attributes in _IDENTITY.items():
        part = element.find(path)
        values = [] if part is None else [part.get(name) for name in attributes]
        if said := " ".join(value for value in values if value):
            return f"{tag}[{said}]"
    return tag


def _additions(asked: etree._Element, got: etree._Element) -> Iterator[str]:
    for tag in sorted(_NEVER_ADDED):
        known = [_label(each) for each in asked.iterfind(f"devices/{tag}")]
        for each in got.iterfind(f"devices/{tag}"):
            if _label(each) not in known:
                yield f"/devices/{_label(each)}: not expected"

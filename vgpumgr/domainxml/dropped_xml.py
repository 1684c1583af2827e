"""Parts of the XML we sent that libvirt dropped or changed without a word."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from vgpumgr.domainxml.xml_tree import untrusted

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
    """Other spellings of the same wish, as libvirt prints them."""
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

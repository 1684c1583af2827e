"""The screen of a domain, as far as its XML says it: an emulated adapter's heads and resolution."""

from __future__ import annotations

from lxml import etree

from vgpumgr.model.domain import Screen


def domain_screen(domain: etree._Element) -> Screen | None:
    """None where it says nothing but what libvirt fills in: one head."""
    model = domain.find("devices/video/model")
    if model is None or model.get("type") == "none":
        return None
    resolution = model.find("resolution")
    heads = _number(model.get("heads"))
    if heads <= 1 and resolution is None:
        return None
    if resolution is None:
        return Screen(heads=heads)
    width, height = (_number(resolution.get(each)) for each in ("x", "y"))
    return Screen(heads=max(1, heads), width=width, height=height)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0

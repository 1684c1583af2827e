"""The answer file of Windows' set-up: ``unattend.xml`` from its template.

Installation from a CD reads every pass; an image that was made general (sysprep) begins with
``specialize``.
"""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from vgpumgr.domainxml.xml_tree import clean, template
from vgpumgr.model.guest_system import GuestSystem

_NS = "{urn:schemas-microsoft-com:unattend}"
_ACTION = "{http://schemas.microsoft.com/WMIConfig/2002/State}action"
_KEY = "{http://schemas.microsoft.com/WMIConfig/2002/State}keyValue"
# The letters that set-up may give to CD drives.
_DRIVES = "DEFGHIJ"
_DRIVERS = ("viostor", "vioscsi", "NetKVM", "vioserial", "Balloon", "qemufwcfg", "qxldod")
# A computer name is one of NetBIOS, which bounds its length.
_LONGEST_NAME = 15
_FIRST_BOOT = (
    "cmd.exe /c for %d in (D E F G H I J) do if exist %d:\\vgpumgr\\first-boot.ps1 "
    "powershell.exe -NoProfile -ExecutionPolicy Bypass -File %d:\\vgpumgr\\first-boot.ps1"
)


def answer_file(system: GuestSystem, hostname: str, settings: Mapping[str, str]) -> str:
    """The file's text; ``settings`` are the parameters of Windows' base, secrets filled in.

    ValueError where one has a character that XML cannot carry.
    """
    root = template("guest/unattend").root
    _language(root, settings["locale"])
    _drivers(root, system.drivers)
    _fill(root, "ComputerName", hostname[:_LONGEST_NAME].rstrip("-"))
    _fill(root, "TimeZone", settings["time_zone"])
    _account(root, settings["user"], settings["password"])
    _fill(root, "CommandLine", _FIRST_BOOT)
    if settings["product_key"]:
        _fill(root, "Key", settings["product_key"])
    else:
        _drop(root, "ProductKey")
    return _text(root)


def _language(root: etree._Element, locale: str) -> None:
    for tag in ("InputLocale", "SystemLocale", "UILanguage", "UserLocale"):
        _fill(root, tag, locale)


def _account(root: etree._Element, user: str, password: str) -> None:
    account = root.find(f".//{_NS}LocalAccount")
    assert account is not None, "the template has one"
    _fill(account, "Name", user)
    _fill(root, "Username", user)
    for each in root.iter(f"{_NS}Password"):
        _fill(each, "Value", password)


def _drivers(root: etree._Element, folder: str) -> None:
    """Every drive's folder: set-up passes over one that is not there."""
    paths = root.find(f".//{_NS}DriverPaths")
    assert paths is not None, "the template has it"
    places = [f"{d}:\\{driver}\\{folder}\\amd64" for d in _DRIVES for driver in _DRIVERS]
    for number, place in enumerate(places, 1):
        entry = etree.SubElement(
            paths, f"{_NS}PathAndCredentials", {_ACTION: "add", _KEY: str(number)}
        )
        etree.SubElement(entry, f"{_NS}Path").text = place


def _fill(root: etree._Element, tag: str, value: str) -> None:
    """Every element of that tag without children."""
    for each in root.iter(f"{_NS}{tag}"):
        if not len(each):
            each.text = clean(value)


def _drop(root: etree._Element, tag: str) -> None:
    for each in list(root.iter(f"{_NS}{tag}")):
        parent = each.getparent()
        assert parent is not None, "the root is never dropped"
        parent.remove(each)


def _text(root: etree._Element) -> str:
    etree.indent(root, space="  ")
    body = etree.tostring(root, encoding="utf-8", xml_declaration=True)
    return body.decode() + "\n"

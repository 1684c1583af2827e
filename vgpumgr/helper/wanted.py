"""The ``wanted`` part of a claim, checked whenever one is read back from the disk."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments


def check(wanted: dict[str, Any]) -> None:
    """HelperError ``bad-argument`` names the field that makes no sense."""
    if wanted.get("kind") == "mdev":
        arguments.sysfs_name(wanted, "parent")
        arguments.sysfs_name(wanted, "type")
        arguments.uuid(wanted, "uuid")
    elif wanted.get("kind") == "vfio":
        for function in functions(wanted):
            _check_function(function)
    else:
        arguments.bad("kind", f"{wanted.get('kind')!r}, which this helper does not know")


def functions(wanted: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The functions of a vfio claim, the main one first, each with where it came from."""
    companions = wanted.get("with", [])
    if not isinstance(companions, list) or not all(isinstance(part, dict) for part in companions):
        arguments.bad("with", "no list of objects")
    return (wanted, *companions)


def addresses(wanted: dict[str, Any]) -> tuple[str, ...]:
    """The addresses of a vfio claim, the main one first."""
    return tuple(part["address"] for part in functions(wanted))


def _check_function(function: dict[str, Any]) -> None:
    arguments.pci(function, "address")
    if function.get("original_driver") is not None:
        arguments.sysfs_name(function, "original_driver")
    if function.get("original_override"):
        arguments.sysfs_name(function, "original_override")
    elif function.get("original_override") != "":
        arguments.bad("original_override", "no text")

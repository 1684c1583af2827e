"""The ``wanted`` part of a claim, checked whenever one is read back from the disk."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, layout_args, vgpu_args

MDEV, VGPU, VFIO, FABRIC, LAYOUT = "mdev", "vgpu", "vfio", "fabric", "layout"


def check(wanted: dict[str, Any]) -> None:
    """HelperError ``bad-argument`` names the field that makes no sense."""
    checks = {
        MDEV: _check_mdev,
        VGPU: _check_vgpu,
        VFIO: _check_vfio,
        FABRIC: _check_fabric,
        LAYOUT: _check_layout,
    }
    kind = wanted.get("kind")
    if not isinstance(kind, str) or kind not in checks:
        arguments.bad("kind", f"{kind!r}, which this helper does not know")
    checks[kind](wanted)


def functions(wanted: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The functions of a vfio claim, the main one first, each with where it came from."""
    companions = wanted.get("with", [])
    if not isinstance(companions, list) or not all(isinstance(part, dict) for part in companions):
        arguments.bad("with", "no list of objects")
    return (wanted, *companions)


def addresses(wanted: dict[str, Any]) -> tuple[str, ...]:
    """The PCI functions that a claim takes, the main one first."""
    if wanted["kind"] == VGPU:
        return (wanted["vf"],)
    if wanted["kind"] == VFIO:
        return tuple(part["address"] for part in functions(wanted))
    return ()


def carriers(wanted: dict[str, Any]) -> tuple[str, ...]:
    """The functions it takes or, for an mdev, lives on: they must stay as long as the claim."""
    return (wanted["parent"],) if wanted["kind"] == MDEV else addresses(wanted)


def instance(wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The GPU instance behind a vGPU, or None."""
    found: dict[str, Any] | None = wanted.get("instance")
    return found


def _check_mdev(wanted: dict[str, Any]) -> None:
    arguments.sysfs_name(wanted, "parent")
    arguments.sysfs_name(wanted, "type")
    arguments.uuid(wanted, "uuid")
    vgpu_args.given(wanted)


def _check_vgpu(wanted: dict[str, Any]) -> None:
    arguments.pci(wanted, "vf")
    arguments.number(wanted, "type")
    vgpu_args.given(wanted)


def _check_vfio(wanted: dict[str, Any]) -> None:
    for function in functions(wanted):
        _check_function(function)


def _check_fabric(wanted: dict[str, Any]) -> None:
    arguments.number(wanted, "partition")
    arguments.numbers(wanted, "gpus")


def _check_layout(wanted: dict[str, Any]) -> None:
    arguments.pci(wanted, "gpu")
    layout_args.given(wanted)


def _check_function(function: dict[str, Any]) -> None:
    arguments.pci(function, "address")
    if function.get("original_driver") is not None:
        arguments.sysfs_name(function, "original_driver")
    if function.get("original_override"):
        arguments.sysfs_name(function, "original_override")
    elif function.get("original_override") != "":
        arguments.bad("original_override", "no text")

"""The wanted state in a claim: vGPU and layout arguments, checked on the wire and on disk.

A part of a layout that is left out is not declared: no boot restores it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpumgr.helper import arguments

# The same checks for a caller's arguments and for a claim read back from the disk.


VGPU_ARGUMENTS = ("instance", "placement_id", "params")

_PARAMS = ("frame_rate_limiter",)


def vgpu_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """All three as a claim keeps them; absent ones are None, None and {}."""
    return {
        "instance": _vgpu_instance(args),
        "placement_id": arguments.optional_number(args, "placement_id"),
        "params": _params(args),
    }


def _vgpu_instance(args: Mapping[str, Any]) -> dict[str, Any] | None:
    found = args.get("instance")
    if found is None:
        return None
    if not isinstance(found, dict):
        arguments.bad("instance", "no object")
    arguments.known(found, ("gpu", "profile_id", "start", "size", "make"))
    numbers = {name: arguments.number(found, name) for name in ("profile_id", "start", "size")}
    make = arguments.flag(found, "make")
    return {"gpu": arguments.pci(found, "gpu"), **numbers, "make": make}


def _params(args: Mapping[str, Any]) -> dict[str, int]:
    found = args.get("params")
    if found is None:
        return {}
    if not isinstance(found, dict):
        arguments.bad("params", "no object")
    arguments.known(found, _PARAMS)
    for name in found:
        if arguments.number(found, name) > 1:
            arguments.bad(name, "neither 0 nor 1")
    return dict(found)


# The same checks for a caller's arguments and for a claim read back from the disk.


LAYOUT_ARGUMENTS = (
    "mig",
    "vfs",
    "mixed_size",
    "scheduler",
    "instances",
    "power_limit",
    "locked_clocks",
    "scheduler_timing",
)
POLICIES = ("best-effort", "equal-share", "fixed-share")

_INSTANCE = ("profile_id", "start", "size", "compute")
# No board draws 100 kW, and no clock is faster than 100 GHz.
_MOST_WATTS = _MOST_MHZ = 100_000
_MOST_TIMING = 1_000_000
_MOST = 16  # GPU instances; no board has more


def layout_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """The declared parts as a claim keeps them; absent and null ones are left out."""
    checks: dict[str, Callable[[], object]] = {
        "mig": lambda: arguments.flag(args, "mig"),
        "vfs": lambda: arguments.number(args, "vfs"),
        "mixed_size": lambda: arguments.flag(args, "mixed_size"),
        "scheduler": lambda: arguments.choice(args, "scheduler", POLICIES),
        "instances": lambda: _instances(args["instances"]),
        "power_limit": lambda: watts(args, "power_limit"),
        "locked_clocks": lambda: clocks(args, "locked_clocks"),
        "scheduler_timing": lambda: timing(args, "scheduler_timing"),
    }
    return {name: check() for name, check in checks.items() if args.get(name) is not None}


def watts(args: Mapping[str, Any], name: str) -> int:
    """A power limit in watts; 0: the board's default."""
    if arguments.number(args, name) > _MOST_WATTS:
        arguments.bad(name, f"more than {_MOST_WATTS} W")
    return arguments.number(args, name)


def clocks(args: Mapping[str, Any], name: str) -> list[int]:
    """[least, most] in MHz, or []: not locked."""
    found = list(arguments.numbers(args, name))
    if found and (len(found) != 2 or not found[0] <= found[1] <= _MOST_MHZ):
        arguments.bad(name, "no range of clocks in MHz")
    return found


def timing(args: Mapping[str, Any], name: str) -> list[int]:
    """[microseconds of a slice], [Hz, averaging factor], or []: the driver's own."""
    found = list(arguments.numbers(args, name))
    if len(found) > 2 or not all(0 < each <= _MOST_TIMING for each in found):
        arguments.bad(name, "no time slice and no frequency with its averaging factor")
    return found


def _instances(found: object) -> list[dict[str, Any]]:
    if not isinstance(found, list) or len(found) > _MOST:
        arguments.bad("instances", f"no list of at most {_MOST} GPU instances")
    return [_declared_instance(each) for each in found]


def _declared_instance(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        arguments.bad("instances", "no list of objects")
    arguments.known(found, _INSTANCE)
    numbers = {name: arguments.number(found, name) for name in ("profile_id", "start", "size")}
    return {**numbers, "compute": list(arguments.numbers(found, "compute"))}


MDEV, VGPU, VFIO, FABRIC, LAYOUT = "mdev", "vgpu", "vfio", "fabric", "layout"
NIC = "nic"


def check(wanted: dict[str, Any]) -> None:
    """HelperError ``bad-argument`` names the field that makes no sense."""
    checks = {
        MDEV: _check_mdev,
        VGPU: _check_vgpu,
        VFIO: _check_vfio,
        FABRIC: _check_fabric,
        LAYOUT: _check_layout,
        NIC: _check_nic,
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
    vgpu_arguments(wanted)


def _check_vgpu(wanted: dict[str, Any]) -> None:
    arguments.pci(wanted, "vf")
    arguments.number(wanted, "type")
    vgpu_arguments(wanted)


def _check_vfio(wanted: dict[str, Any]) -> None:
    for function in functions(wanted):
        _check_function(function)


def _check_fabric(wanted: dict[str, Any]) -> None:
    arguments.number(wanted, "partition")
    arguments.numbers(wanted, "gpus")


def _check_layout(wanted: dict[str, Any]) -> None:
    arguments.pci(wanted, "gpu")
    layout_arguments(wanted)


def _check_nic(wanted: dict[str, Any]) -> None:
    arguments.pci(wanted, "address")
    arguments.flag(wanted, "trust")
    arguments.flag(wanted, "spoof_check")


def _check_function(function: dict[str, Any]) -> None:
    arguments.pci(function, "address")
    if function.get("original_driver") is not None:
        arguments.sysfs_name(function, "original_driver")
    if function.get("original_override"):
        arguments.sysfs_name(function, "original_override")
    elif function.get("original_override") != "":
        arguments.bad("original_override", "no text")

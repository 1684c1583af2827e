"""Whole PCI functions: given to vfio-pci by driver_override, and back to where they came from."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, sysfs, viable, wanted
from vgpumgr.helper.arguments import Presented
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

_MODULE = "vfio-pci"
_MODPROBE_SECONDS = 30.0


def look(call: Call) -> dict[str, Any]:
    """The ``vfio_look`` verb; ``in_use`` None = we may not ask."""
    system, address = call.system, arguments.pci(call.args, "address")
    claim = claims.load(system, unit_of(address))
    if not pci.exists(system, address):
        nothing = dict.fromkeys(("driver", "driver_override", "iommu_group"))
        return {"exists": False, **nothing, "in_use": False, "claim": claim}
    group = sysfs.iommu_group(system, pci.path(address))
    return {
        "exists": True,
        "driver": pci.driver(system, address),
        "driver_override": pci.current_override(system, address) or None,
        "iommu_group": group,
        "in_use": sysfs.held_if_told(system, group),
        "claim": claim,
    }


def bind(call: Call) -> dict[str, Any]:
    """The ``vfio_bind`` verb: check the group, claim, bind, read back. Repeating is no error."""
    address = arguments.pci(call.args, "address")
    companions = arguments.pci_list(call.args, "with")
    presented = arguments.claim(call.args, "claim")
    if address in companions:
        arguments.bad("with", "a list that names the function itself")
    want = _claimed(call, presented, (address, *companions))
    try:
        to_vfio(call.system, want)
    except HelperError as refused:
        _give_up(call.system, want, refused)
    return {"driver": pci.VFIO, "original_driver": want["original_driver"]}


def release(call: Call) -> dict[str, Any]:
    """The ``vfio_release`` verb: the original drivers come back, then the claim goes."""
    system, address = call.system, arguments.pci(call.args, "address")
    presented = arguments.claim(call.args, "claim")
    held = claims.may_take(call, unit_of(address), presented)
    if held:
        if pci.exists(system, address):
            viable.check_idle(system, address)
        to_original(system, held["wanted"])
        claims.drop(system, unit_of(address))
    elif pci.driver(system, address) == pci.VFIO:
        claims.must_hold(call, unit_of(address), presented)
    return {"driver": pci.driver(system, address)}


def unit_of(address: str) -> str:
    """The claim's name for a PCI function."""
    return f"pci-{address}"


def is_bound(system: System, want: dict[str, Any]) -> bool:
    """Whether every function of a claim is on vfio-pci."""
    return all(
        pci.exists(system, address) and pci.driver(system, address) == pci.VFIO
        for address in wanted.addresses(want)
    )


def load_driver(system: System) -> None:
    """Load vfio-pci where the kernel does not have it yet."""
    if system.exists(f"{pci.DRIVERS}/{pci.VFIO}"):
        return
    try:
        status, output = system.run(("modprobe", _MODULE), _MODPROBE_SECONDS)
    except OSError as error:
        raise errors.from_effect(error, "vfio-pci could not be loaded") from error
    if not system.exists(f"{pci.DRIVERS}/{pci.VFIO}"):
        why = f"modprobe ended with {status}: {output.strip()}"
        raise HelperError(errors.REFUSED, "vfio-pci could not be loaded", why)


def to_vfio(system: System, want: dict[str, Any]) -> None:
    """Bind every function of a claim, and read back."""
    for address in wanted.addresses(want):
        if not pci.exists(system, address):
            raise HelperError(errors.NOT_FOUND, f"no PCI function {address}")
        pci.move(system, address, pci.VFIO, override=pci.VFIO)


def to_original(system: System, want: dict[str, Any]) -> None:
    """Give every function of a claim back, the main one last; one that is gone is skipped."""
    for part in reversed(wanted.functions(want)):
        if pci.exists(system, part["address"]):
            pci.move(
                system,
                part["address"],
                part["original_driver"],
                override=part["original_override"],
            )


def _claimed(call: Call, presented: Presented, functions: tuple[str, ...]) -> dict[str, Any]:
    """What the claim on the functions says; it is written here unless it was before."""
    system, unit = call.system, unit_of(functions[0])
    held = claims.may_take(call, unit, presented)
    if held and wanted.addresses(held["wanted"]) != functions:
        raise HelperError(
            errors.CLAIM_MISMATCH,
            f"{functions[0]} is claimed together with other functions",
            f"claimed: {', '.join(wanted.addresses(held['wanted']))}",
        )
    viable.check_unclaimed(system, unit, functions)
    if not held or not is_bound(system, held["wanted"]):
        viable.check(system, functions[0], functions[1:])
        load_driver(system)
    # A claim that is there already knows the original drivers; the bus may no longer.
    want = held["wanted"] if held else _wanted(system, functions)
    if not held:
        claims.put(call, unit, presented, want)
    return want


def _wanted(system: System, functions: tuple[str, ...]) -> dict[str, Any]:
    main, *companions = (_origin(system, address) for address in functions)
    return {"kind": "vfio", **main, "with": companions}


def _origin(system: System, address: str) -> dict[str, Any]:
    return {
        "address": address,
        "original_driver": pci.driver(system, address),
        "original_override": pci.current_override(system, address),
    }


def _give_up(system: System, want: dict[str, Any], refused: HelperError) -> None:
    """Undo a bind that failed; the claim stays where even that fails."""
    try:
        to_original(system, want)
    except (HelperError, OSError) as stuck:
        raise HelperError(
            refused.code,
            refused.message,
            f"{refused.why}; the original driver did not come back either: {stuck}",
            refused.errno_name,
        ) from stuck
    claims.drop(system, unit_of(want["address"]))
    raise refused

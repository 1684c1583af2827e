"""Whole PCI functions, VFs included: given to vfio-pci by driver_override, and back again."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, sysfs, wanted_state
from vgpumgr.helper.arguments import Call, Presented
from vgpumgr.helper.devices import reset, viability
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import power_limits
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import layout_verbs

_MODULE = "vfio-pci"
_MODPROBE_SECONDS = 30.0


def look(call: Call) -> dict[str, Any]:
    """The ``vfio_look`` verb; ``in_use`` None = we may not ask."""
    system, address = call.system, arguments.pci(call.args, "address")
    claim = claims.load(system, pci.unit_of(address))
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
    claimed_before = claims.load(call.system, pci.unit_of(address)) is not None
    want = _claimed(call, presented, (address, *companions))
    try:
        give(call.system, want, holder_of(presented.allocation, presented.generation))
    except HelperError as refused:
        _give_up(call.system, want, refused)
        if not claimed_before:
            claims.drop(call.system, pci.unit_of(address))
        raise
    return {"driver": pci.VFIO, "original_driver": want["original_driver"]}


def release(call: Call) -> dict[str, Any]:
    """The ``vfio_release`` verb: the original drivers come back, then the claim goes."""
    system, address = call.system, arguments.pci(call.args, "address")
    presented = arguments.claim(call.args, "claim")
    held = claims.may_take(call, pci.unit_of(address), presented)
    if held:
        _require_kind(held)
        if pci.exists(system, address):
            viability.check_idle(system, address)
        to_original(system, held["wanted"])
        claims.drop(system, pci.unit_of(address))
    elif pci.driver(system, address) == pci.VFIO:
        claims.must_hold(call, pci.unit_of(address), presented)
    return {"driver": pci.driver(system, address)}


def holder_of(allocation: str, generation: int) -> str:
    """What ``reset`` notes of the guest that a function is given to."""
    return f"{allocation} {generation}"


def is_bound(system: System, want: dict[str, Any]) -> bool:
    """Whether every function of a claim is on vfio-pci."""
    return all(
        pci.exists(system, address) and pci.driver(system, address) == pci.VFIO
        for address in wanted_state.addresses(want)
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


def give(system: System, want: dict[str, Any], holder: str) -> None:
    """Bind every function of a claim, read back, and reset what another guest had."""
    for address in wanted_state.addresses(want):
        if not pci.exists(system, address):
            raise HelperError(errors.NOT_FOUND, f"no PCI function {address}")
        pci.move(system, address, pci.VFIO, override=pci.VFIO)
        power_limits.forget(system, address)
    # Under vfio-pci and not before: a vendor's driver would not survive the reset.
    reset.before_guest(system, wanted_state.addresses(want), holder)


def to_original(system: System, want: dict[str, Any]) -> None:
    """Give every function of a claim back, the main one last; one that is gone is skipped. The
    driver has forgotten the power limit and clocks that its layout declares.
    """
    for part in reversed(wanted_state.functions(want)):
        reset.given_back(system, part["address"])
        if pci.exists(system, part["address"]):
            pci.move(
                system,
                part["address"],
                part["original_driver"],
                override=part["original_override"],
            )
    layout_verbs.bring_power_back(system, want["address"])


def _claimed(call: Call, presented: Presented, functions: tuple[str, ...]) -> dict[str, Any]:
    """What the claim on the functions says; it is written here unless it was before."""
    system, unit = call.system, pci.unit_of(functions[0])
    held = claims.may_take(call, unit, presented)
    if held:
        _require_kind(held)
    if held and wanted_state.addresses(held["wanted"]) != functions:
        raise HelperError(
            errors.CLAIM_MISMATCH,
            f"{functions[0]} is claimed together with other functions",
            f"claimed: {', '.join(wanted_state.addresses(held['wanted']))}",
        )
    viability.check_unclaimed(system, unit, functions)
    if not held or not is_bound(system, held["wanted"]):
        viability.check(system, functions[0], functions[1:])
        reset.check(system, functions[0], holder_of(presented.allocation, presented.generation))
        load_driver(system)
    # A claim that is there already knows the original drivers; the bus may no longer.
    want = held["wanted"] if held else _wanted(system, functions)
    if not held:
        claims.put(call, unit, presented, want)
    return want


def _require_kind(held: claims.Claim) -> None:
    if held["wanted"]["kind"] != wanted_state.VFIO:
        why = f"the claim is of kind {held['wanted']['kind']}"
        message = f"{held['unit']} is claimed as something else"
        raise HelperError(errors.CLAIM_MISMATCH, message, why)


def _wanted(system: System, functions: tuple[str, ...]) -> dict[str, Any]:
    main, *companions = (_origin(system, address) for address in functions)
    return {"kind": wanted_state.VFIO, **main, "with": companions}


def _origin(system: System, address: str) -> dict[str, Any]:
    return {
        "address": address,
        "original_driver": pci.driver(system, address),
        "original_override": pci.current_override(system, address),
    }


def _give_up(system: System, want: dict[str, Any], refused: HelperError) -> None:
    """Undo a bind that failed; raises where even that fails."""
    try:
        to_original(system, want)
    except (HelperError, OSError) as stuck:
        raise HelperError(
            refused.code,
            refused.message,
            f"{refused.why}; the original driver did not come back either: {stuck}",
            refused.errno_name,
        ) from stuck

"""The verbs for adopting: an existing unit gets a claim; it is looked at and not touched.

Refused where the device is not as asked, and where anybody has claimed it. What another hand
put on vfio-pci goes back to vfio-pci when it is released: that is how it was found.
"""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, wanted_state
from vgpumgr.helper.arguments import Call, Presented
from vgpumgr.helper.devices import mdev_device, reset, viability
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_files, vf_vgpu, vgpu_instance
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import mdev_verbs, vfio, vgpu_verbs

_UNITS = ("mdev-", "pci-")


def adopt_mdev(call: Call) -> dict[str, Any]:
    """The ``mdev_adopt`` verb."""
    system, uuid = call.system, arguments.uuid(call.args, "uuid")
    want = {
        "kind": wanted_state.MDEV,
        "parent": arguments.sysfs_name(call.args, "parent"),
        "type": arguments.sysfs_name(call.args, "type"),
        "uuid": uuid,
        **wanted_state.vgpu_arguments(call.args),
    }
    if not mdev_device.is_wanted(system, want):
        there = mdev_device.exists(system, uuid)
        found = _place(system, uuid) if there else "no such device"
        raise _differs(f"mdev {uuid}", f"{want['type']} on {want['parent']}", found)
    _require_instance(system, want, sysfs_file=f"{mdev_device.DEVICES}/{uuid}/nvidia")
    _claim(call, mdev_verbs.unit_of(uuid), want)
    return mdev_verbs.seen(system, uuid)


def adopt_vgpu(call: Call) -> dict[str, Any]:
    """The ``vgpu_adopt`` verb."""
    system, vf = call.system, arguments.pci(call.args, "vf")
    kind = arguments.number(call.args, "type")
    want = {
        "kind": wanted_state.VGPU,
        "vf": vf,
        "type": kind,
        **wanted_state.vgpu_arguments(call.args),
    }
    vf_vgpu.require_files(system, vf)
    if not kind or vf_files.current(system, vf) != kind:
        raise _differs(vf, f"type {kind}", f"type {vf_files.current(system, vf)}")
    _require_instance(system, want, sysfs_file=f"{pci.path(vf)}/nvidia")
    placed = want["placement_id"]
    if placed is not None and vf_files.placement(system, vf) != placed:
        there = vf_files.placement(system, vf)
        raise _differs(vf, f"placement {placed}", f"placement {there}")
    viability.check_unclaimed(system, pci.unit_of(vf), (vf,))
    _claim(call, pci.unit_of(vf), want)
    return vgpu_verbs.seen(system, vf)


def adopt_vfio(call: Call) -> dict[str, Any]:
    """The ``vfio_adopt`` verb: functions that are on vfio-pci; the next guest's reset is due."""
    system, address = call.system, arguments.pci(call.args, "address")
    companions = arguments.pci_list(call.args, "with")
    functions = (address, *companions)
    for each in functions:
        if not pci.exists(system, each) or pci.driver(system, each) != pci.VFIO:
            found = pci.driver(system, each) if pci.exists(system, each) else "no such function"
            raise _differs(each, f"on {pci.VFIO}", found or "no driver")
    viability.check_kind(system, address, companions)
    viability.check_unclaimed(system, pci.unit_of(address), functions)
    main, *others = (_as_found(system, each) for each in functions)
    want = {"kind": wanted_state.VFIO, **main, "with": others}
    presented = _claim(call, pci.unit_of(address), want)
    holder = vfio.holder_of(presented.allocation, presented.generation)
    reset.given(system, functions, holder)
    return vfio.look(call)


def disown(call: Call) -> dict[str, Any]:
    """The ``disown`` verb: the claim goes, the device stays as it is. None there: no error."""
    unit = arguments.identifier(call.args, "unit")
    if not unit.startswith(_UNITS):
        arguments.bad("unit", "no claim of a device")
    held = claims.may_take(call, unit, arguments.claim(call.args, "claim"))
    instance = wanted_state.instance(held["wanted"]) if held else None
    if instance and instance["make"]:
        why = "nobody would take it away any more: release the device"
        raise HelperError(errors.REFUSED, f"{unit} has a GPU instance that was made for it", why)
    claims.drop(call.system, unit)
    return {}


def _claim(call: Call, unit: str, want: dict[str, Any]) -> Presented:
    presented = arguments.claim(call.args, "claim")
    held = claims.may_take(call, unit, presented)
    if held:
        _require_same(held, want)
    else:
        claims.put(call, unit, presented, want)
    return presented


def _require_same(held: claims.Claim, want: dict[str, Any]) -> None:
    """A claim that was written at a bind knows a driver that the bus does not show any more."""
    if held["wanted"]["kind"] == want["kind"] == wanted_state.VFIO:
        if wanted_state.addresses(held["wanted"]) != wanted_state.addresses(want):
            there = ", ".join(wanted_state.addresses(held["wanted"]))
            message = f"{held['unit']} is claimed together with other functions"
            raise HelperError(errors.CLAIM_MISMATCH, message, f"claimed: {there}")
        return
    claims.require_same(held, want)


def _require_instance(system: System, want: dict[str, Any], *, sysfs_file: str) -> None:
    """The GPU instance must be there, and where the driver shows the device's, it must be that one.

    It is never made here, whatever the claim says of what is to become of it.
    """
    said = wanted_state.instance(want)
    instance = vgpu_instance.hold(system, {**said, "make": False} if said else None)
    path = f"{sysfs_file}/gpu_instance_id"
    if instance is not None and system.exists(path):
        vgpu_instance.require(vf_files.number(system, path), instance)


def _as_found(system: System, address: str) -> dict[str, Any]:
    return {
        "address": address,
        "original_driver": pci.VFIO,
        "original_override": pci.current_override(system, address),
    }


def _place(system: System, uuid: str) -> str:
    return f"{mdev_device.type_of(system, uuid)} on {mdev_device.parent_of(system, uuid)}"


def _differs(what: str, asked: str, found: str) -> HelperError:
    return HelperError(
        errors.REFUSED, f"{what} is not as it was asked for", f"asked for {asked}, found {found}"
    )

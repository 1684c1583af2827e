"""The verbs for mediated devices: Intel GVT-g, the kernel's samples, vGPUs before kernel 6.8."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, sysfs, wanted_state
from vgpumgr.helper.arguments import Call, Presented
from vgpumgr.helper.devices import mdev_device
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vgpu_instance
from vgpumgr.helper.system import System


def look(call: Call) -> dict[str, Any]:
    """The ``mdev_look`` verb."""
    return seen(call.system, arguments.uuid(call.args, "uuid"))


def create(call: Call) -> dict[str, Any]:
    """The ``mdev_create`` verb: claim, create, read back. Repeating it is no error."""
    system, uuid = call.system, arguments.uuid(call.args, "uuid")
    asked = {
        "kind": wanted_state.MDEV,
        "parent": arguments.sysfs_name(call.args, "parent"),
        "type": arguments.sysfs_name(call.args, "type"),
        "uuid": uuid,
        **wanted_state.vgpu_arguments(call.args),
    }
    presented = arguments.claim(call.args, "claim")
    existed = mdev_device.exists(system, uuid)
    claimed_before = claims.load(system, unit_of(uuid)) is not None
    want = _claimed(call, presented, asked, existed)
    try:
        mdev_device.make(system, want)
    except HelperError as refused:
        if not (existed or claimed_before) and refused.code != errors.UNKNOWN:
            with refused.taking_back():
                _forget(system, want)
        raise
    return {"state": "in-state", **seen(system, uuid)}


def remove(call: Call) -> dict[str, Any]:
    """The ``mdev_remove`` verb: the device, the instance made for it, then the claim."""
    system, uuid = call.system, arguments.uuid(call.args, "uuid")
    presented = arguments.claim(call.args, "claim")
    if mdev_device.exists(system, uuid):
        held: claims.Claim | None = claims.must_hold(call, unit_of(uuid), presented)
        mdev_device.remove(system, uuid)
    else:
        held = claims.may_take(call, unit_of(uuid), presented)
    if held:
        vgpu_instance.let_go(system, unit_of(uuid), wanted_state.instance(held["wanted"]))
    claims.drop(system, unit_of(uuid))
    return {"exists": False}


def unit_of(uuid: str) -> str:
    """The claim's name for an mdev."""
    return f"mdev-{uuid}"


def seen(system: System, uuid: str) -> dict[str, Any]:
    """What is there under this UUID, and its claim; ``in_use`` None = we may not ask."""
    claim = claims.load(system, unit_of(uuid))
    if not mdev_device.exists(system, uuid):
        nothing = dict.fromkeys(("parent", "type", "iommu_group"))
        return {"exists": False, **nothing, "in_use": False, "claim": claim}
    group = sysfs.iommu_group(system, f"{mdev_device.DEVICES}/{uuid}")
    return {
        "exists": True,
        "parent": mdev_device.parent_of(system, uuid),
        "type": mdev_device.type_of(system, uuid),
        "iommu_group": group,
        "in_use": sysfs.held_if_told(system, group),
        "claim": claim,
    }


def _claimed(
    call: Call, presented: Presented, asked: dict[str, Any], existed: bool
) -> dict[str, Any]:
    """What the claim on the mdev says; it is written here unless it was before."""
    system, unit = call.system, unit_of(asked["uuid"])
    held = claims.may_take(call, unit, presented)
    if existed and not held:
        claims.must_hold(call, unit, presented)
    if held:
        claims.require_same(held, asked)
        return dict(held["wanted"])
    mdev_device.require_type(system, asked)
    if asked["instance"] is None:  # a new GPU instance may make the room
        mdev_device.require_room(system, asked)
    want = {**asked, "instance": vgpu_instance.settle(system, unit, asked["instance"])}
    claims.put(call, unit, presented, want)
    return want


def _forget(system: System, want: dict[str, Any]) -> None:
    """Instance and claim of an mdev that surely is not there."""
    if not mdev_device.exists(system, want["uuid"]):
        vgpu_instance.let_go(system, unit_of(want["uuid"]), wanted_state.instance(want))
        claims.drop(system, unit_of(want["uuid"]))

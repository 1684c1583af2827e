"""Mediated devices, made by writing a UUID to the type's ``create`` file (any vendor)."""

from __future__ import annotations

import errno
import posixpath
from typing import Any

from vgpumgr.helper import arguments, claims, errors, sysfs
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

PARENTS = "/sys/class/mdev_bus"
DEVICES = "/sys/bus/mdev/devices"

_GONE_POLLS, _GONE_PAUSE = 100, 0.1


def look(call: Call) -> dict[str, Any]:
    """The ``mdev_look`` verb."""
    return seen(call.system, arguments.uuid(call.args, "uuid"))


def create(call: Call) -> dict[str, Any]:
    """The ``mdev_create`` verb: claim, create, read back. Repeating it is no error."""
    uuid = arguments.uuid(call.args, "uuid")
    wanted = {
        "kind": "mdev",
        "parent": arguments.sysfs_name(call.args, "parent"),
        "type": arguments.sysfs_name(call.args, "type"),
        "uuid": uuid,
    }
    presented = arguments.claim(call.args, "claim")
    if _exists(call.system, uuid):
        claims.must_hold(call, unit_of(uuid), presented)
    else:
        claims.may_take(call, unit_of(uuid), presented)
        require_room(call.system, wanted)
        claims.put(call, unit_of(uuid), presented, wanted)
    try:
        make(call.system, wanted)
    except HelperError:
        if not _exists(call.system, uuid):
            claims.drop(call.system, unit_of(uuid))
        raise
    return {"state": "in-state", **seen(call.system, uuid)}


def remove(call: Call) -> dict[str, Any]:
    """The ``mdev_remove`` verb: present the claim, remove, see it gone, drop the claim."""
    uuid = arguments.uuid(call.args, "uuid")
    presented = arguments.claim(call.args, "claim")
    if _exists(call.system, uuid):
        claims.must_hold(call, unit_of(uuid), presented)
        _remove(call.system, uuid)
    else:
        claims.may_take(call, unit_of(uuid), presented)
    claims.drop(call.system, unit_of(uuid))
    return {"exists": False}


def unit_of(uuid: str) -> str:
    """The claim's name for an mdev."""
    return f"mdev-{uuid}"


def parent_of(system: System, uuid: str) -> str:
    """The name of an existing mdev's parent, as under ``/sys/class/mdev_bus``."""
    return posixpath.basename(posixpath.dirname(system.real(f"{DEVICES}/{uuid}")))


def seen(system: System, uuid: str) -> dict[str, Any]:
    """What is there under this UUID, and its claim; ``in_use`` None = we may not ask."""
    claim = claims.load(system, unit_of(uuid))
    if not _exists(system, uuid):
        nothing = dict.fromkeys(("parent", "type", "iommu_group"))
        return {"exists": False, **nothing, "in_use": False, "claim": claim}
    device = f"{DEVICES}/{uuid}"
    group = sysfs.iommu_group(system, device)
    return {
        "exists": True,
        "parent": parent_of(system, uuid),
        "type": sysfs.target(system, f"{device}/mdev_type"),
        "iommu_group": group,
        "in_use": sysfs.held_if_told(system, group),
        "claim": claim,
    }


def require_room(system: System, wanted: dict[str, Any]) -> None:
    """Refuse before anything is written: no such parent or type, or none left of it."""
    parent, kind = wanted["parent"], wanted["type"]
    if not system.exists(f"{PARENTS}/{parent}"):
        raise HelperError(errors.NOT_FOUND, f"no mdev parent {parent}", f"not in {PARENTS}")
    folder = _type_folder(parent, kind)
    if not system.exists(folder):
        offered = ", ".join(system.list(posixpath.dirname(folder)))
        raise HelperError(errors.NOT_FOUND, f"{parent} offers no type {kind}", f"it has: {offered}")
    if int(sysfs.text(system, f"{folder}/available_instances")) == 0:
        of_type = len(system.list(f"{folder}/devices"))
        raise HelperError(
            errors.REFUSED,
            f"no {kind} is left on {parent}",
            f"available_instances is 0, {of_type} of this type exist",
            errno.errorcode[errno.ENOSPC],
        )


def make(system: System, wanted: dict[str, Any]) -> None:
    """Create unless it exists, and read back."""
    uuid, parent, kind = wanted["uuid"], wanted["parent"], wanted["type"]
    if not _exists(system, uuid):
        refused = f"the driver of {parent} refused an mdev of type {kind}"
        sysfs.effect(system, f"{_type_folder(parent, kind)}/create", uuid, refused)
    found = seen(system, uuid)
    if (found["parent"], found["type"]) != (parent, kind):
        raise HelperError(
            errors.REFUSED,
            f"mdev {uuid} is not what was asked for",
            f"asked for {kind} on {parent}, there is {found['type']} on {found['parent']}",
        )


def _remove(system: System, uuid: str) -> None:
    group = sysfs.iommu_group(system, f"{DEVICES}/{uuid}")
    if sysfs.held(system, group):
        raise _in_use(uuid, f"/dev/vfio/{group} is open", errno.EBUSY)
    try:
        system.write(f"{DEVICES}/{uuid}/remove", "1")
    except OSError as error:
        # NVIDIA's driver answers EPERM, not EBUSY, for a vGPU that a VM holds. EAGAIN: another
        # hand is removing it; ENODEV, ENOENT: it is gone. In all three the poll below tells.
        if error.errno in (errno.EPERM, errno.EBUSY):
            raise _in_use(uuid, errors.reason(error), error.errno) from error
        if error.errno not in (errno.EAGAIN, errno.ENODEV, errno.ENOENT):
            raise errors.from_effect(error, f"mdev {uuid} was not removed") from error
    _await_gone(system, uuid)


def _await_gone(system: System, uuid: str) -> None:
    for _ in range(_GONE_POLLS):
        if not _exists(system, uuid):
            return
        system.wait(_GONE_PAUSE)
    raise HelperError(
        errors.UNKNOWN,
        f"mdev {uuid} is still there",
        f"removal was accepted, but not done {_GONE_POLLS * _GONE_PAUSE:.0f} s later",
    )


def _in_use(uuid: str, why: str, number: int | None) -> HelperError:
    return HelperError(errors.IN_USE, f"mdev {uuid} is in use", why, errno.errorcode[number or 0])


def _exists(system: System, uuid: str) -> bool:
    return system.exists(f"{DEVICES}/{uuid}")


def _type_folder(parent: str, kind: str) -> str:
    return f"{PARENTS}/{parent}/mdev_supported_types/{kind}"

"""One mediated device: made by writing a UUID to its type's ``create`` file, and removed.

Any vendor; NVIDIA's may have a GPU instance, a place and parameters.
"""

from __future__ import annotations

import errno
import posixpath
from typing import Any

from vgpumgr.helper import errors, pci, sysfs, wanted_state
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import vf_files, vgpu_instance, vgpu_params
from vgpumgr.helper.system import System

PARENTS = "/sys/class/mdev_bus"
DEVICES = "/sys/bus/mdev/devices"

_GONE_SECONDS = 10.0


def exists(system: System, uuid: str) -> bool:
    """Whether there is an mdev of this UUID."""
    return system.exists(f"{DEVICES}/{uuid}")


def parent_of(system: System, uuid: str) -> str:
    """The name of an existing mdev's parent, as under ``/sys/class/mdev_bus``."""
    return posixpath.basename(posixpath.dirname(system.real(f"{DEVICES}/{uuid}")))


def type_of(system: System, uuid: str) -> str | None:
    """The type of an existing mdev."""
    return sysfs.target(system, f"{DEVICES}/{uuid}/mdev_type")


def on(system: System, parents: tuple[str, ...]) -> list[str]:
    """The mdevs on any of these parents, whoever made them."""
    uuids = system.list(DEVICES) if system.exists(DEVICES) else ()
    return [uuid for uuid in uuids if parent_of(system, uuid) in parents]


def require_type(system: System, want: dict[str, Any]) -> None:
    """Refuse where there is no such parent, or no such type of it."""
    parent, kind = want["parent"], want["type"]
    if not system.exists(f"{PARENTS}/{parent}"):
        raise HelperError(errors.NOT_FOUND, f"no mdev parent {parent}", f"not in {PARENTS}")
    if pci.exists(system, parent):
        pci.require_gpu(system, parent)
    folder = _type_folder(parent, kind)
    if not system.exists(folder):
        offered = ", ".join(system.list(posixpath.dirname(folder)))
        raise HelperError(errors.NOT_FOUND, f"{parent} offers no type {kind}", f"it has: {offered}")


def require_room(system: System, want: dict[str, Any]) -> None:
    """Refuse where none of the type is left."""
    parent, kind = want["parent"], want["type"]
    folder = _type_folder(parent, kind)
    if int(sysfs.text(system, f"{folder}/available_instances")) == 0:
        of_type = len(system.list(f"{folder}/devices"))
        raise HelperError(
            errors.REFUSED,
            f"no {kind} is left on {parent}",
            f"available_instances is 0, {of_type} of this type exist",
            errno.errorcode[errno.ENOSPC],
        )


def make(system: System, want: dict[str, Any]) -> None:
    """Everything a claim says, unless it is there; each part is read back.

    An mdev made here with another instance or parameters is removed again.
    """
    uuid, parent, kind = want["uuid"], want["parent"], want["type"]
    instance = vgpu_instance.hold(system, wanted_state.instance(want))
    existed = exists(system, uuid)
    if not existed:
        require_type(system, want)
        require_room(system, want)
        refused = f"the driver of {parent} refused an mdev of type {kind}"
        sysfs.effect(system, f"{_type_folder(parent, kind)}/create", uuid, refused)
    if not is_wanted(system, want):
        there = f"{type_of(system, uuid)} on {parent_of(system, uuid)}"
        message = f"mdev {uuid} is not what was asked for"
        why = f"asked for {kind} on {parent}, there is {there}"
        raise HelperError(errors.REFUSED, message, why)
    try:
        _require_instance(system, uuid, instance)
        vgpu_params.put(system, f"{DEVICES}/{uuid}/nvidia/vgpu_params", _params(want))
    except HelperError as refused:
        if not existed:
            with refused.taking_back():
                remove(system, uuid)
        raise


def is_wanted(system: System, want: dict[str, Any]) -> bool:
    """Whether an mdev of that UUID is there, of that type, on that parent."""
    uuid = want["uuid"]
    if not exists(system, uuid):
        return False
    found = parent_of(system, uuid), type_of(system, uuid)
    return found == (want["parent"], want["type"])


def remove(system: System, uuid: str) -> None:
    """Remove it and see it gone; ``in-use`` while a guest holds it.

    EBUSY is polled: the plugin of a VM that has just stopped lives on a little.
    """
    group = sysfs.iommu_group(system, f"{DEVICES}/{uuid}")
    if sysfs.held(system, group):
        raise _in_use(uuid, f"/dev/vfio/{group} is open", errno.EBUSY)
    busy: list[OSError] = []
    if sysfs.wait_until(system, lambda: _removed(system, uuid, busy), _GONE_SECONDS):
        return
    if busy:
        raise _in_use(uuid, errors.reason(busy[-1]), errno.EBUSY)
    why = f"removal was accepted, but not done {_GONE_SECONDS:.0f} s later"
    raise HelperError(errors.UNKNOWN, f"mdev {uuid} is still there", why)


def _removed(system: System, uuid: str, busy: list[OSError]) -> bool:
    """Ask once more; whether it is gone. ``busy`` keeps the last EBUSY, and nothing else."""
    busy.clear()
    try:
        system.write(f"{DEVICES}/{uuid}/remove", "1")
    except OSError as error:
        # NVIDIA's driver answers EPERM for a vGPU that a VM holds. EAGAIN: another hand is
        # removing it; ENODEV, ENOENT: it is gone.
        if error.errno == errno.EPERM:
            raise _in_use(uuid, errors.reason(error), error.errno) from error
        if error.errno == errno.EBUSY:
            busy.append(error)
        elif error.errno not in (errno.EAGAIN, errno.ENODEV, errno.ENOENT):
            raise errors.from_effect(error, f"mdev {uuid} was not removed") from error
    return not exists(system, uuid)


def _require_instance(system: System, uuid: str, instance: int | None) -> None:
    """Drivers that show an mdev's GPU instance are held to it; older ones have no such file."""
    path = f"{DEVICES}/{uuid}/nvidia/gpu_instance_id"
    if instance is not None and system.exists(path):
        vgpu_instance.require(vf_files.number(system, path), instance)


def _params(want: dict[str, Any]) -> dict[str, int]:
    """An mdev's place is a parameter of it; the driver checks it at the start of the VM only."""
    params = dict(want.get("params") or {})
    placement = want.get("placement_id")
    return params if placement is None else {vgpu_params.PLACEMENT: placement, **params}


def _in_use(uuid: str, why: str, number: int | None) -> HelperError:
    return HelperError(errors.IN_USE, f"mdev {uuid} is in use", why, errno.errorcode[number or 0])


def _type_folder(parent: str, kind: str) -> str:
    return f"{PARENTS}/{parent}/mdev_supported_types/{kind}"

"""What the kernel shows of mediated devices: parents with their types, devices, definitions."""

from __future__ import annotations

import re
from typing import Any

from vgpumgr.helper import sysfs
from vgpumgr.helper.devices import mdev_device
from vgpumgr.helper.errors import ProbeParts
from vgpumgr.helper.system import System

_MDEVCTL = "/etc/mdevctl.d"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def parents(system: System, parts: ProbeParts) -> list[dict[str, Any]]:
    """Every entry of ``/sys/class/mdev_bus``, virtual parents included.

    The VFs of a GPU list the same types: a parent whose list equals an earlier one's names that
    parent in ``types_of`` instead.
    """
    found = []
    known: dict[tuple[str, str], dict[str, Any]] = {}
    lists: list[tuple[list[dict[str, Any]], str]] = []
    for name in parts.read("parents", _names, system, mdev_device.PARENTS) or ():
        folder = f"{mdev_device.PARENTS}/{name}"
        types = parts.read(f"parents {name}", system.list, f"{folder}/mdev_supported_types") or ()
        listed = [_type(system, name, kind, parts, known) for kind in types]
        alike = next((other for there, other in lists if there == listed), None)
        if alike is None:
            lists.append((listed, name))
        path = parts.read(f"parents {name} path", system.real, folder)
        told = {"types": listed} if alike is None else {"types_of": alike}
        found.append({"name": name, "path": path, **told})
    return found


def existing(system: System, parts: ProbeParts) -> list[dict[str, Any]]:
    """Every mediated device, whoever made it."""
    uuids = parts.read("mdevs", _names, system, mdev_device.DEVICES) or ()
    found = (parts.read(f"mdevs {uuid}", _device, system, uuid) for uuid in uuids)
    return [device for device in found if device is not None]


def definitions(system: System, parts: ProbeParts) -> list[str]:
    """The UUIDs that mdevctl would make at boot or on demand; whatever else lies there is named."""
    found: list[str] = []
    for name in parts.read("mdevctl", _names, system, _MDEVCTL) or ():
        if name.endswith(".d"):
            continue  # scripts.d, which holds no definitions
        for uuid in parts.read(f"mdevctl {name}", system.list, f"{_MDEVCTL}/{name}") or ():
            if _UUID.fullmatch(uuid):
                found.append(uuid)
            else:
                parts.miss(f"mdevctl {name}/{uuid}", "its name is no UUID")
    return sorted(found)


def _names(system: System, folder: str) -> tuple[str, ...]:
    return tuple(system.list(folder)) if system.exists(folder) else ()


def _type(
    system: System,
    parent: str,
    kind: str,
    parts: ProbeParts,
    known: dict[tuple[str, str], dict[str, Any]],
) -> dict[str, Any]:
    """What never changes of a type is read once: the VFs of a GPU list the same types."""
    folder = f"{mdev_device.PARENTS}/{parent}/mdev_supported_types/{kind}"
    part = f"parents {parent} {kind}"
    name = parts.read(part, sysfs.optional_text, system, f"{folder}/name") or kind
    rest = known.get((kind, name))
    if rest is None:
        rest = known[kind, name] = {
            "device_api": parts.read(part, sysfs.text, system, f"{folder}/device_api"),
            "description": parts.read(part, sysfs.optional_text, system, f"{folder}/description")
            or "",
        }
    available = parts.read(part, _available, system, folder)
    return {"id": kind, "name": name, "available": available, **rest}


def _available(system: System, folder: str) -> int:
    return int(sysfs.text(system, f"{folder}/available_instances"))


def _device(system: System, uuid: str) -> dict[str, Any] | None:
    folder = f"{mdev_device.DEVICES}/{uuid}"
    return {
        "uuid": uuid,
        "parent": mdev_device.parent_of(system, uuid),
        "type": mdev_device.type_of(system, uuid),
        "iommu_group": sysfs.iommu_group(system, folder),
    }

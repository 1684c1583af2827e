"""The files of a VF under NVIDIA's vendor-specific VFIO framework (kernel 6.8 and later).

``<VF>/nvidia/``: what may be made on it, what is, and where the driver put it. The driver answers
ENXIO for the instance and the placement of a VF without a vGPU.
"""

from __future__ import annotations

import errno
import re
from typing import Any

from vgpumgr.helper import pci, sysfs
from vgpumgr.helper.errors import ProbeParts
from vgpumgr.helper.system import System

# "no GPU instance", as NVML writes it.
_NONE = 0xFFFFFFFF


def file(vf: str, name: str) -> str:
    """The path of one of the files."""
    return f"{pci.path(vf)}/nvidia/{name}"


def has(system: System, vf: str) -> bool:
    """Whether vGPUs are made on the VF through these files."""
    return system.exists(file(vf, "current_vgpu_type"))


def current(system: System, vf: str) -> int:
    """The type it carries; 0 for none."""
    return int(sysfs.text(system, file(vf, "current_vgpu_type")))


def creatable(system: System, vf: str) -> list[int]:
    """The type ids that the driver would take now."""
    return list(names(system, vf))


def names(system: System, vf: str) -> dict[int, str]:
    """The same with their names (``1147  : NVIDIA L40S-1Q``)."""
    text = system.read(file(vf, "creatable_vgpu_types"))
    lines = re.findall(r"^[ \t]*(\d+)[ \t]*:[ \t]*(.*)$", text, re.MULTILINE)
    return {int(number): name.strip() for number, name in lines}


def creatable_if_told(system: System, vf: str) -> list[int] | None:
    """As ``creatable``; None where the driver fails to make the list."""
    try:
        return creatable(system, vf)
    except OSError:
        return None


def instance(system: System, vf: str) -> int | None:
    """The id of the GPU instance that its vGPU lives in."""
    return number(system, file(vf, "gpu_instance_id"))


def placement(system: System, vf: str) -> int | None:
    """Its vGPU's placement id: on the card, or inside the GPU instance."""
    return number(system, file(vf, "placement_id"))


def number(system: System, path: str) -> int | None:
    """A file's number; None for ENXIO, no such file (older drivers), none or ``Not Applicable``."""
    try:
        text = sysfs.optional_text(system, path)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise
    found = int(text) if text and text.isdigit() else None
    return None if found == _NONE else found


def facts(system: System, vf: str, parts: ProbeParts) -> dict[str, Any] | None:
    """The ``vgpu`` object of a VF in a probe; None where it has no such files."""
    part = f"vfs {vf} vgpu"
    if not parts.read(part, has, system, vf):
        return None
    return {
        "creatable": parts.read(part, creatable, system, vf),
        "type": parts.read(part, current, system, vf),
        "instance": parts.read(part, instance, system, vf),
        "placement_id": parts.read(part, placement, system, vf),
    }

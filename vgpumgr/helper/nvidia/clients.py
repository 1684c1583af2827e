"""Programs that hold an NVIDIA GPU: unbinding its driver would wait for them without end."""

from __future__ import annotations

import errno
import re

from vgpumgr.helper import errors, sysfs
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

# Published by NVIDIA's driver; the line is "Device Minor: 	 0", the node /dev/nvidia0.
_GPUS = "/proc/driver/nvidia/gpus"


def check_none(system: System, address: str) -> None:
    """Refuse ``in-use`` with the programs' names; a GPU of another driver has none to name."""
    information = sysfs.optional_text(system, f"{_GPUS}/{address}/information")
    minor = re.search(r"Device Minor:\s*(\d+)", information or "")
    if minor is None:
        return
    node = f"/dev/nvidia{minor.group(1)}"
    programs = sorted({_name(system, pid) for pid in _pids(system) if _holds(system, pid, node)})
    if programs:
        raise HelperError(
            errors.IN_USE,
            f"{address} is in use",
            f"{node} is open in {', '.join(programs)}; stop it and try again",
            errno.errorcode[errno.EBUSY],
        )


def _pids(system: System) -> list[str]:
    """Every process but this one: the library we asked keeps the node open."""
    ours = system.link("/proc/self")
    return [name for name in system.list("/proc") if name.isdigit() and name != ours]


def _holds(system: System, pid: str, node: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(system.link(f"{folder}/{name}") == node for name in system.list(folder))
    except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
        return False


def _name(system: System, pid: str) -> str:
    try:
        return sysfs.text(system, f"/proc/{pid}/comm")
    except (FileNotFoundError, ProcessLookupError):
        return f"process {pid}"

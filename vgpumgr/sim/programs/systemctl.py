"""``systemctl show``: what systemd tells of units, there or not, and of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.linux.setup import RESTORE, UNITS

_ABSENT = {"load": "not-found", "enabled": "", "active": "inactive", "result": "success"}
_PROPERTIES = {
    "LoadState": "load",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "Result": "result",
}


def run(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    """Nothing but ``show`` with a list of properties is there."""
    match list(args):
        case ["show", "-pSystemState"]:
            return 0, f"SystemState={'stopping' if kernel.setup.stopping else 'running'}\n"
        case ["show", wanted, *units] if wanted.startswith("-p"):
            names = wanted.removeprefix("-p").split(",")
            return 0, "\n".join(_block(kernel, unit, names) for unit in units)
    return 1, "Unknown command verb.\n"


def _block(kernel: Kernel, unit: str, names: Sequence[str]) -> str:
    there = unit != RESTORE or kernel.tree.exists(f"{UNITS}/{RESTORE}")
    known = kernel.setup.units.get(unit, _ABSENT) if there else _ABSENT
    state: Mapping[str, str] = {**known, "id": unit}
    return "".join(f"{name}={state[_PROPERTIES.get(name, 'id')]}\n" for name in names)

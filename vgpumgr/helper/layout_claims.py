"""The claim of a GPU's layout: whose the partitioning is, and what every boot brings back."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.claims import Claim
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

_PREFIX = "layout-"


def unit_of(gpu: str) -> str:
    """The claim's name for the layout of the GPU at a PCI address."""
    return f"{_PREFIX}{gpu}"


def gpu_of(unit: str) -> str | None:
    """The GPU whose layout a unit is, by the unit's name alone; None for any other unit."""
    return unit[len(_PREFIX) :] if unit.startswith(_PREFIX) else None


def ours(call: Call) -> Claim | None:
    """Our fleet's layout on argument ``gpu``, None without any; refuse another fleet's."""
    gpu = arguments.pci(call.args, "gpu")
    found = claims.load(call.system, unit_of(gpu))
    if found is not None and found["fleet"] != call.fleet:
        raise HelperError(
            errors.CLAIM_MISMATCH,
            f"the partitioning of {gpu} is another fleet's",
            f"{claims.CLAIMS}/{unit_of(gpu)}.json is layout {found['vm']}"
            f" of fleet {found['fleet']}",
        )
    return found


def declares(system: System, instance: dict[str, Any]) -> bool:
    """Whether the layout of its GPU declares a GPU instance of that profile in that place."""
    found = claims.load(system, unit_of(instance["gpu"]))
    place = (instance["profile_id"], instance["start"])
    declared = found["wanted"].get("instances", ()) if found else ()
    return any((each["profile_id"], each["start"]) == place for each in declared)


def is_layout(claim: Claim) -> bool:
    """Whether it is a layout's claim."""
    return bool(claim["wanted"]["kind"] == wanted_state.LAYOUT)

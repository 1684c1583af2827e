"""Claims of VMs on devices, and PCI functions bound to vfio-pci under a claim."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Helper
from vgpumgr.model.vm import Allocation


def claim_of(allocation: Allocation) -> dict[str, object]:
    """The claim argument of every verb that changes (docs/helper-protocol.md)."""
    return {
        "allocation": allocation.id,
        "generation": allocation.generation,
        "vm": allocation.vm,
    }


def is_ours(seen: Mapping[str, object], allocation: Allocation) -> bool:
    """Does what a look saw carry this allocation's claim? The device itself may be gone."""
    return _owner(seen) == allocation.id


def require_ours(seen: Mapping[str, object], allocation: Allocation) -> None:
    """Conflict when the device exists under a claim that is not this allocation's."""
    owner = _owner(seen)
    if owner != allocation.id:
        raise Conflict(
            f"{allocation.device} on {allocation.host} is not ours",
            why=f"its claim names {owner}" if owner else "it exists without a claim",
            next=f"vgpumgr host probe {allocation.host}",
        )


def _owner(seen: Mapping[str, object]) -> object:
    claim = seen.get("claim")
    return claim.get("allocation") if isinstance(claim, Mapping) else None


class BoundFunction:
    """The helper binds with driver_override, resets, and restores the host driver at release."""

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Bind to vfio-pci, companions too."""
        helper.call("vfio_bind", _arguments(allocation))

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the functions that are on vfio-pci."""
        helper.call("vfio_adopt", _arguments(allocation))

    def look(self, helper: Helper, allocation: Allocation) -> Observed:
        """Is it on vfio-pci under our claim?"""
        seen = helper.call("vfio_look", {"address": allocation.device})
        if not seen["exists"]:
            return Differs(f"{allocation.device} is not on the bus")
        if seen["driver"] != "vfio-pci":
            return Differs(f"{allocation.device} is on {seen['driver'] or 'no driver'}")
        require_ours(seen, allocation)
        return InState()

    def holds(self, helper: Helper, allocation: Allocation) -> bool:
        """The claim goes last, when the original driver is back."""
        return is_ours(helper.call("vfio_look", {"address": allocation.device}), allocation)

    def release(self, helper: Helper, allocation: Allocation) -> None:
        """Give it back to the driver it came from."""
        helper.call("vfio_release", {"address": allocation.device, "claim": claim_of(allocation)})


def _arguments(allocation: Allocation) -> dict[str, object]:
    return {
        "address": allocation.device,
        "with": list(allocation.companions),
        "claim": claim_of(allocation),
    }

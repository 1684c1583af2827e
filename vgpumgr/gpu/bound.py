"""A PCI function given to a guest as it is: bound to vfio-pci under a claim, and back."""

from __future__ import annotations

from vgpumgr.gpu.claim import claim_of, is_ours, require_ours
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Helper
from vgpumgr.model.vm import Allocation


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

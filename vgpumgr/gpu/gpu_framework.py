"""The life cycle that every framework fulfils, and the arguments of the helper's verbs in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import Hostdev
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.operation import Observed
from vgpumgr.model.ports import Helper
from vgpumgr.model.supply import Offer


class GpuFramework(Protocol):
    """How one framework turns an allocation into a device on a host and back."""

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """What this GPU can make through this framework, as it is partitioned now."""

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Make the device, under its claim; already made under the same claim is no error."""

    def look(self, helper: Helper, allocation: Allocation) -> Observed:
        """Is the device there, under our claim, in the wanted state?"""

    def holds(self, helper: Helper, allocation: Allocation) -> bool:
        """Does the host keep anything under our claim, the device or the claim alone?"""

    def release(self, helper: Helper, allocation: Allocation) -> None:
        """Take the device back, presenting the claim; already gone is no error."""

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the device as it is, without touching it; HostRefused where it is otherwise."""

    def describe(self, allocation: Allocation, *, display: bool) -> tuple[Hostdev, ...]:
        """The hostdevs that go into the domain."""


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


def vgpu_arguments(allocation: Allocation) -> dict[str, object]:
    """What goes with the verb that makes the vGPU: instance, place and parameters, if any."""
    wanted: dict[str, object] = {}
    part = allocation.instance
    if part is not None:
        wanted["instance"] = {
            "gpu": part.gpu,
            "profile_id": part.profile_id,
            "start": part.start,
            "size": part.size,
            "make": part.make,
        }
    if allocation.placement_id is not None:
        wanted["placement_id"] = allocation.placement_id
    if allocation.frame_rate_limiter is not None:
        wanted["params"] = {"frame_rate_limiter": int(allocation.frame_rate_limiter)}
    return wanted


def _owner(seen: Mapping[str, object]) -> object:
    claim = seen.get("claim")
    return claim.get("allocation") if isinstance(claim, Mapping) else None

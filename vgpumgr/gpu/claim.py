"""What a call presents to the helper, and how its looks are judged."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.model.errors import Conflict
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

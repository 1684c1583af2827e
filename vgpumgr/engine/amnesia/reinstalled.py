"""A host that lost what was written on it: it was reinstalled, or is another machine. Pure.

Every verb that changes a host leaves its epoch there, and every device of ours a claim. A host
that says it has neither, and holds allocations in the ledger, has forgotten them.
"""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import Allocation, AllocationState

_TELLING = frozenset({"epoch", "epochs", "claims", "helper"})
_MADE = frozenset({AllocationState.ACTIVE, AllocationState.ORPHANED})


def lost(facts: HostFacts, held: Iterable[Allocation], fleet: str) -> tuple[Allocation, ...]:
    """The allocations that a host has forgotten; () for one that remembers, or cannot be read."""
    if facts.epoch_of(fleet) != 0 or _TELLING & {each.part.split(" ")[0] for each in facts.unknown}:
        return ()
    if any(claim.fleet == fleet for claim in facts.claims):
        return ()
    return tuple(each for each in held if each.host == facts.host and each.state in _MADE)


def reason(allocations: Iterable[Allocation]) -> str:
    """What happened, in words."""
    every = tuple(allocations)
    return (
        f"it knows nothing of the {len(every)} allocations that the ledger has on it: it was "
        "reinstalled, or is another machine"
    )

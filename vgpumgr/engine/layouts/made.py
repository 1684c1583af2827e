"""Whose a GPU instance is: a layout's, or of the VMs that it was made for."""

from __future__ import annotations

from vgpumgr.engine.supply import claim_unit
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.vm import InstancePart


def made_for_vms(view: LedgerView) -> dict[str, frozenset[int]]:
    """Starts of the GPU instances that were created for VMs, by GPU's id."""
    claims = {
        (host.name, claim.unit): claim.wanted.get("instance")
        for host in view.hosts
        for claim in (host.facts.claims if host.facts else ())
        if claim.fleet == view.fleet
    }
    found: dict[str, set[int]] = {}
    for allocation in view.allocations:
        claimed = claims.get((allocation.host, claim_unit(allocation)))
        if allocation.instance is not None and _made(allocation.instance, claimed):
            found.setdefault(allocation.gpu, set()).add(allocation.instance.start)
    return {gpu: frozenset(starts) for gpu, starts in found.items()}


def _made(part: InstancePart, claimed: object) -> bool:
    """Whose instance it is, the claim knows: VMs that share one hand it on as they go."""
    return bool(claimed["make"]) if isinstance(claimed, dict) else part.make

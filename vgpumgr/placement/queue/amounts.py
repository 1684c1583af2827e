"""What VMs take of their tenants' quotas."""

from __future__ import annotations

from collections import Counter

from vgpumgr.model.placement import Placed
from vgpumgr.model.quota import Amount


def amount_of(placed: Placed) -> Amount:
    """What a VM holds where it was placed, in the terms of quotas."""
    profiles = Counter(part.offer.profile for part in placed.assignments)
    return Amount(
        gpu_memory_mib=sum(part.offer.memory_mib for part in placed.assignments),
        gpus=len(placed.assignments),
        vcpus=placed.request.vcpus,
        vms=1,
        profiles=dict(profiles),
    )

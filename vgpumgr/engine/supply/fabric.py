"""NVSwitch partitions of a host in our GPUs' ids."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.supply.held import HostContext
from vgpumgr.model import claim_units
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.placement import PartitionSupply


def partitions(host: HostContext, gpus: Sequence[GpuRecord]) -> tuple[PartitionSupply, ...]:
    """Partitions whose GPUs are all known here, less those that a foreign one stands in.

    A partition that is active without a claim of ours was activated by another hand: no other
    partition with one of its GPUs can be, until that one is deactivated.
    """
    fabric = host.facts.fabric
    if fabric is None:
        return ()
    ids = {gpu.facts.module_id: gpu.id for gpu in gpus if gpu.facts.module_id is not None}
    ours = {claim.unit for claim in host.facts.claims if claim.fleet == host.fleet}
    foreign = {
        number
        for partition in fabric.partitions
        if partition.active and claim_units.fabric(partition.id) not in ours
        for number in partition.gpus
    }
    return tuple(
        PartitionSupply(id=each.id, gpus=frozenset(ids[number] for number in each.gpus))
        for each in fabric.partitions
        if all(number in ids and number not in foreign for number in each.gpus)
    )

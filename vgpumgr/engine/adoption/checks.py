"""What keeps a part of a GPU from being taken over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.engine.adoption.candidate import FoundPart
from vgpumgr.model import claim_units
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import Allocation

VFIO = "vfio-pci"


class NotAdoptable(Exception):
    """Why a device cannot be taken over."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A host as its last probe saw it, its GPUs, and what the ledger holds on it."""

    facts: HostFacts
    gpus: Sequence[GpuRecord]
    held: Sequence[Allocation]


def check_bound(address: str, driver: str | None) -> None:
    """A function that is given as it is must be where a guest can have it."""
    if driver != VFIO:
        raise NotAdoptable(
            f"{address} is on {driver or 'no driver'}, not on {VFIO}: start the domain first"
        )


def check_free(part: FoundPart, domain: DomainFacts, around: Surroundings) -> None:
    """Nobody else may have it: no allocation, no claim, no other domain."""
    devices = {part.device, *part.companions}
    for each in around.held:
        if devices & {each.device, *each.companions}:
            raise NotAdoptable(f"{part.device} is {each.vm}'s")
    units = {claim_units.pci(device) for device in devices} | {claim_units.mdev(part.device)}
    for claim in around.facts.claims:
        if claim.unit in units:
            raise NotAdoptable(f"{part.device} is claimed by fleet {claim.fleet} for {claim.vm}")
    for other in around.facts.domains:
        if other.name != domain.name and devices & set(other.devices):
            raise NotAdoptable(f"{part.device} is in domain {other.name} as well")


def check_gpu(gpu: GpuRecord) -> None:
    """Nothing is taken over on a GPU that takes nothing."""
    if gpu.state is not GpuState.HEALTHY:
        raise NotAdoptable(f"{gpu.facts.device} is {gpu.state}")
    if gpu.facts.unfit:
        raise NotAdoptable(f"{gpu.facts.device} is {gpu.facts.health}")
    doubt = catalog.contradiction(gpu.facts)
    if doubt:
        raise NotAdoptable(f"{gpu.facts.device} may be another board: {doubt}")

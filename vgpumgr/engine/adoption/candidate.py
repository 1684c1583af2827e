"""A foreign VM that could be adopted, and the conditions that prevent it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation, InstancePart
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import NAME, VmSpec
from vgpumgr.model.vm_names import MOST, free_name, legal_name


def fault_of(name: str, vms: Collection[str], domains: Collection[str]) -> str:
    """Why a domain of that name cannot become a VM; empty where it can.

    ``vms`` are the fleet's, ``domains`` the names on its host: the name offered is in neither.
    """
    if not re.fullmatch(NAME, name):
        fault = (
            f"the name {name!r} is not a valid VM name: lower-case letters, digits and hyphens, "
        )
        fault += f"at most {MOST}"
    elif name in vms:
        fault = f"the fleet has a VM {name} already"
    else:
        return ""
    new = free_name(legal_name(name), {*vms, *domains})
    return f"{fault} (while it is off: virsh domrename {shlex.quote(name)} {new})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPart:
    """A GPU part that a foreign domain has: all of an allocation but its ids.

    ``slots`` are free in the ledger; ``gpu`` is our id, ``parent`` that of an mdev.
    """

    gpu: str
    device: str
    offer: Offer
    slots: tuple[int, ...]
    parent: str = ""
    companions: tuple[str, ...] = ()
    vf: int | None = None
    instance: InstancePart | None = None
    placement_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionCandidate:
    """A foreign domain. ``why`` has every reason that it cannot be adopted for; empty: it can.

    ``xml`` is its definition, ``uuid`` libvirt's id of it; ``notes`` are worth knowing.
    """

    host: str
    name: str
    uuid: str = ""
    running: bool = False
    autostart: bool = False
    xml: str = ""
    spec: VmSpec | None = None
    parts: tuple[FoundPart, ...] = ()
    cpus: tuple[int, ...] = ()
    numa_node: int | None = None
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Can it be adopted?"""
        return not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class UnownedPart:
    """Something foreign on a GPU that no domain names, or partitioning that no layout declares.

    ``next`` is what to type to have it gone, or managed.
    """

    host: str
    gpu: str
    subject: str
    text: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionFindings:
    """All of it, by host; ``not_read`` are hosts (with the reason) of which nothing is said."""

    candidates: tuple[AdoptionCandidate, ...] = ()
    loose: tuple[UnownedPart, ...] = ()
    not_read: tuple[str, ...] = ()


VFIO = "vfio-pci"


class NotAdoptable(Exception):
    """Why a device cannot be taken over."""


@dataclass(frozen=True, slots=True)
class AdoptionHost:
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


def check_free(part: FoundPart, domain: DomainFacts, around: AdoptionHost) -> None:
    """Conflict where a part has another holder: an allocation, a claim, or another domain."""
    devices = {part.device, *part.companions}
    for each in around.held:
        if devices & {each.device, *each.companions}:
            raise NotAdoptable(f"{part.device} is {each.vm}'s")
    units = {formats.pci_claim(device) for device in devices} | {formats.mdev_claim(part.device)}
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
    if not gpu.health.state.takes_vms:
        raise NotAdoptable(f"{gpu.facts.device} is {gpu.health.state}: {gpu.health.why}")
    doubt = catalog.contradiction(gpu.facts)
    if doubt:
        raise NotAdoptable(f"{gpu.facts.device} may be another board: {doubt}")

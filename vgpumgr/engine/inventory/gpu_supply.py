"""Supply of one GPU: its slots less our allocations, foreign use, and the parts lost at a
reboot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from vgpumgr import catalog, domainxml
from vgpumgr import gpu as frameworks
from vgpumgr.engine.inventory.gpu_usage import (
    HostContents,
    claim_unit,
    foreign_holder,
    foreign_usages,
    free_slots,
    instances,
    nvml_unread,
    our_usage,
    promised_mdevs,
)
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.gpu import Framework, GpuFacts, GpuHealth, GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.model.identity_memo import IdentityMemo
from vgpumgr.model.layout import AUTOMATIC, VFS_MAX, GpuLayout, InstanceGoal, LayoutRecord
from vgpumgr.model.supply import FreeVf, GpuSupply, InstanceSupply, Offer, PartitionSupply, Usage

MOST_SHAPES = 1 << 12
_COMMON = attrgetter(*(f.name for f in fields(GpuFacts) if f.name not in {"uuid", "serial"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShape:
    """What can be made on such GPUs, and their ``functions``: addresses, and units of claims.

    ``odd``: what the driver tells contradicts itself.
    """

    offers: tuple[Offer, ...]
    could: Mapping[str, str]
    same_size: bool
    functions: frozenset[str]
    odd: bool


_SHAPES = IdentityMemo[GpuShape](MOST_SHAPES)


def shape_of(gpu: GpuRecord) -> GpuShape:
    """The shape of the GPU, which all share that the ledger keeps as one text."""
    return _SHAPES.of(_COMMON(gpu.facts), gpu.units, lambda: _shape(gpu))


def _shape(gpu: GpuRecord) -> GpuShape:
    offers = tuple(_whole(offer, gpu.units) for offer in frameworks.offers(gpu.facts))
    functions = {gpu.facts.device, *(vf.address for vf in gpu.facts.vfs)}
    return GpuShape(
        offers=offers,
        could=frameworks.potential(gpu.facts),
        same_size=any(offer.size_class and not offer.instance for offer in offers),
        functions=frozenset((*functions, *map(formats.pci_claim, functions))),
        odd=bool(catalog.contradiction(gpu.facts)),
    )


def _whole(offer: Offer, units: int) -> Offer:
    """Passthrough takes every slot of the GPU."""
    return replace(offer, units=units) if offer.framework is Framework.PASSTHROUGH else offer


def shown(gpu: GpuFacts, host: HostFacts) -> frozenset[str] | None:
    """The mdevs of the host and the GPU's VFs in use, by device; None where one was not read."""
    whole = {"devices", "mdevs", f"devices {gpu.device} sriov"}
    parts = [unknown.part for unknown in host.unknown]
    if any(part in whole or part.startswith("mdevs ") for part in parts):
        return None
    used = (vf.address for vf in gpu.vfs if vf.vendor is None or vf.vendor.type_id != 0)
    return frozenset((*(mdev.uuid for mdev in host.mdevs), *used))


def needs(
    gpu: GpuFacts,
    allocation: Allocation,
    there: frozenset[str] | None,
    layout: LayoutRecord | None = None,
) -> GpuLayout | None:
    """How the GPU must be partitioned for a lost part to come back; None where it is not lost.

    ``there`` is what is ``shown``: what could not be read is never taken for gone. What is
    reserved is about to be made, and a whole GPU is not lost while it is on the bus. How many VFs
    a GPU outside the catalogue had is in the ``layout`` that was applied last.
    """
    whole = allocation.framework == Framework.PASSTHROUGH
    if whole or there is None or allocation.device in there:
        return None
    if allocation.state is not AllocationState.ACTIVE:
        return None
    if allocation.vf is None:
        return GpuLayout()
    plain = catalog.parse_vf_profile(allocation.profile)
    if plain is not None:
        return GpuLayout(vfs=plain[1])
    return GpuLayout(
        mig=None if gpu.mig is None else allocation.instance is not None,
        vfs=_vfs(gpu, layout),
        mixed_size=_mixed_size(gpu, allocation),
        instances=_of_layout(allocation),
    )


def _vfs(gpu: GpuFacts, layout: LayoutRecord | None) -> int:
    declared = layout.goal.vfs if layout and catalog.board(gpu.model) is None else None
    return declared or VFS_MAX


def _of_layout(allocation: Allocation) -> tuple[InstanceGoal, ...] | None:
    """The GPU instance that is not made for the VM must be there before it."""
    part = allocation.instance
    if part is None or part.make:
        return None
    return (InstanceGoal(profile=part.profile, start=part.start),)


def _mixed_size(gpu: GpuFacts, allocation: Allocation) -> bool | None:
    board = catalog.board(gpu.model)
    if board is None or not board.mixed_size or allocation.instance is not None:
        return None
    return allocation.placement_id is not None


def lost_usages(
    gpu: GpuFacts, host: HostFacts, ours: Iterable[Allocation], layout: LayoutRecord | None
) -> list[Usage]:
    """Usages of active allocations that the host has lost, each with the partitioning it needs."""
    there = shown(gpu, host)
    needed = ((each, needs(gpu, each, there, layout)) for each in ours)
    return [replace(our_usage(each, ()), needs=goal) for each, goal in needed if goal is not None]


_UNTOUCHED = IdentityMemo[Mapping[str, Any]](MOST_SHAPES)


def gpu_supplies(
    gpus: Iterable[GpuRecord], host: HostContents, partitions: Sequence[PartitionSupply] = ()
) -> tuple[GpuSupply, ...]:
    """The supply of a host's GPUs for placement. GPUs that nothing on the host touches are worked
    out once for all identical ones.
    """
    touched = _touched(host)
    joined = frozenset[str]().union(*(each.gpus for each in partitions))

    def supply(gpu: GpuRecord) -> GpuSupply:
        shape = shape_of(gpu)
        if not _is_untouched(gpu, shape, host, touched):
            return gpu_supply(gpu, host, partitions)
        facts = host.facts
        around = (
            gpu.units, facts.iommu, facts.unknown, facts.versions.libvirt, facts.fabric is None,
            gpu.id in joined,
        )  # fmt: skip
        values = _UNTOUCHED.of(
            (shape,), around, lambda: _nameless(gpu_supply(gpu, host, partitions))
        )
        return GpuSupply(id=gpu.id, **values)

    return tuple(map(supply, gpus))


def _touched(host: HostContents) -> frozenset[str]:
    """GPUs (our ids) and functions that somebody has, or claims."""
    return frozenset(
        (
            *(allocation.gpu for allocation in host.held),
            *(allocation.device for allocation in host.held),
            *(mdev.parent for mdev in host.facts.mdevs),
            *(claim.unit for claim in host.facts.claims),
            *(parent for parent, _, _ in promised_mdevs(host)),
            *(device for domain in host.foreign_domains for device in domain.devices),
        )
    )


def _is_untouched(
    gpu: GpuRecord, shape: GpuShape, host: HostContents, touched: frozenset[str]
) -> bool:
    layout = host.layouts.get(gpu.id)
    return (
        gpu.state is GpuState.HEALTHY
        and gpu.health.state.takes_vms
        and (layout is None or layout.settled)
        and not shape.odd
        and gpu.id not in touched
        and shape.functions.isdisjoint(touched)
    )


def _nameless(supply: GpuSupply) -> Mapping[str, Any]:
    names = (each.name for each in fields(supply) if each.name != "id")
    return {name: getattr(supply, name) for name in names}


def gpu_supply(
    gpu: GpuRecord, host: HostContents, partitions: Sequence[PartitionSupply] = ()
) -> GpuSupply:
    """The supply of this GPU for placement; ``partitions`` are the host's usable ones."""
    facts, shape = gpu.facts, shape_of(gpu)
    offers = shape.offers
    ours = [allocation for allocation in host.held if allocation.gpu == gpu.id]
    foreign = foreign_usages(gpu, host, offers)
    carved = instances(facts, ours, foreign, offers)
    free_vfs = _free_vfs(facts, ours, host)
    return GpuSupply(
        id=gpu.id,
        device=facts.device,
        model=facts.model,
        numa_node=facts.numa_node,
        units=gpu.units,
        free_slots=free_slots(gpu.units, ours, foreign, carved, offers),
        offers=offers,
        usages=(*_our_usages(facts, ours, host, offers), *foreign),
        same_size=shape.same_size,
        available=_available(facts, ours, host, offers, free_vfs, carved),
        blocked=_blocked(gpu, host),
        passthrough_blocked=_passthrough_blocked(facts, host.facts)
        or _fabric_blocked(gpu, host.facts, partitions),
        mixed_size=facts.mixed_size is True,
        instances=carved,
        gpu_slices=frameworks.compute_slices(facts),
        free_vfs=free_vfs,
        module_id=facts.module_id,
        could=shape.could,
        no_mig_vgpus=frameworks.no_mig_vgpus(facts),
        path=facts.path,
    )


def _our_usages(
    gpu: GpuFacts, ours: Sequence[Allocation], host: HostContents, offers: Sequence[Offer]
) -> list[Usage]:
    there = shown(gpu, host.facts) if ours else None
    return [
        replace(
            our_usage(each, offers),
            needs=needs(gpu, each, there, host.layouts.get(each.gpu)),
        )
        for each in ours
    ]


def _free_vfs(gpu: GpuFacts, ours: Sequence[Allocation], host: HostContents) -> tuple[FreeVf, ...]:
    """VFs without a vGPU, an mdev, an owner of ours or a foreign domain."""
    taken = {allocation.vf for allocation in ours}
    parents = {mdev.parent for mdev in host.facts.mdevs}
    parents |= {parent for parent, _, _ in promised_mdevs(host)}
    return tuple(
        FreeVf(number=vf.number, address=vf.address)
        for vf in gpu.vfs
        if vf.number not in taken
        and vf.address not in parents
        and (vf.vendor is None or vf.vendor.type_id == 0)
        and not foreign_holder(vf.address, host)
    )


def _available(
    gpu: GpuFacts,
    ours: Sequence[Allocation],
    host: HostContents,
    offers: Sequence[Offer],
    free_vfs: Sequence[FreeVf],
    carved: Sequence[InstanceSupply],
) -> dict[str, int]:
    """The driver's own counts, unless what we hold has changed since they were read."""
    if not _as_observed(gpu, ours, host):
        return {}
    if not gpu.vfs:
        found = {each.type_id: each.available for each in gpu.mdev_types}
        return {type_id: count for type_id, count in found.items() if count is not None}
    if carved or (gpu.mig is not None and gpu.mig.enabled):
        return {}  # what a VF can make follows from the instances, which we may still make
    creatable = _creatable(gpu, {vf.number for vf in free_vfs})
    if creatable is None:
        return {}
    return {o.type_id: 0 for o in offers if o.needs_vf and o.type_id not in creatable and o.type_id}


def _creatable(gpu: GpuFacts, free: set[int]) -> set[str] | None:
    """Type ids that some free VF would take now; None where one of them did not tell."""
    found: set[str] = set()
    for vf in gpu.vfs:
        if vf.number not in free:
            continue
        if vf.vendor is not None:
            if vf.vendor.creatable is None:
                return None
            found |= {str(type_id) for type_id in vf.vendor.creatable}
        elif any(each.available is None for each in vf.mdev_types):
            return None
        else:
            found |= {each.type_id for each in vf.mdev_types if each.available}
    return found


def _as_observed(gpu: GpuFacts, ours: Sequence[Allocation], host: HostContents) -> bool:
    """Do the claims that the probe saw on this GPU match what we hold of it?"""
    functions = {gpu.device, *(vf.address for vf in gpu.vfs)}
    mdevs = {mdev.uuid for mdev in host.facts.mdevs if mdev.parent in functions}
    units = {*map(formats.pci_claim, functions), *map(formats.mdev_claim, mdevs)}
    claimed = {claim.unit for claim in host.facts.claims if claim.fleet == host.fleet}
    return units & claimed == {claim_unit(allocation) for allocation in ours}


def _blocked(gpu: GpuRecord, host: HostContents) -> str:
    facts = gpu.facts
    if gpu.state is not GpuState.HEALTHY:
        return f"{gpu.state}: {gpu.state_why}" if gpu.state_why else str(gpu.state)
    if facts.unfit:
        return _ill(facts)
    if not gpu.health.state.takes_vms:
        return f"{gpu.health.state}: {gpu.health.why}"
    doubt = catalog.contradiction(facts)
    if doubt:
        return f"{doubt} (vgpumgr gpu show {gpu.id})"
    layout = host.layouts.get(gpu.id)
    if layout is not None and not layout.settled:
        way_on = "vgpumgr layout apply"
        if layout.layout == AUTOMATIC:
            way_on = f"vgpumgr operation list; where none is open, {way_on}"
        return f"its layout {layout.layout} is not finished ({way_on})"
    if facts.mdev_types and not facts.type_units and facts.address is None:
        return "its capacity is unknown: it was never seen empty"
    if facts.mig is not None and facts.mig.enabled and facts.mig.instances is None:
        return "its GPU instances could not be read"
    unread = nvml_unread(facts, host.facts)
    if unread and _has_modes(facts):
        return f"its MIG or mixed-size mode could not be read: {unread}"
    vendor = any(vf.vendor is not None for vf in facts.vfs)
    libvirt = host.facts.versions.libvirt
    if vendor and libvirt and not domainxml.knows(libvirt, "vendor driver of a VF"):
        return f"vGPUs on its VFs need libvirt 9.7 or later, the host has {libvirt}"
    holder = foreign_holder(facts.device, host)
    return f"it is held by {holder}, which is foreign" if holder else ""


def _has_modes(gpu: GpuFacts) -> bool:
    """Of a board outside the catalogue NVML alone knows: vGPUs on its VFs may be of either kind."""
    board = catalog.board(gpu.model)
    return bool(gpu.vfs) if board is None else board.mixed_size or board.mig_capable


def _fabric_blocked(gpu: GpuRecord, facts: HostFacts, partitions: Sequence[PartitionSupply]) -> str:
    """Without its NVSwitch partition a whole GPU is no use to a guest."""
    board = catalog.board(gpu.facts.model)
    if board is None or not board.fabric:
        return ""
    unread = next((each for each in facts.unknown if each.part.split(" ")[0] == "fabric"), None)
    if unread is not None:
        return f"its NVSwitch partitions could not be read: {unread.why}"
    if facts.fabric is None or any(gpu.id in each.gpus for each in partitions):
        return ""
    if gpu.facts.module_id is None:
        return "its module id is unknown, so its NVSwitch partition cannot be chosen"
    return "no NVSwitch partition with it is free of foreign users"


def _ill(gpu: GpuFacts) -> str:
    words = {
        GpuHealth.LOST: "it fell off the bus",
        GpuHealth.RESET_REQUIRED: "it needs a reset",
        GpuHealth.FAILED: "it is broken",
        GpuHealth.UNKNOWN: "its health is unknown",
    }
    detail = f": {gpu.health_detail}" if gpu.health_detail else ""
    return f"{words[gpu.health]}{detail}"


def _passthrough_blocked(gpu: GpuFacts, facts: HostFacts) -> str:
    if not facts.iommu or gpu.iommu_group is None:
        return "the IOMMU is off"
    if gpu.device not in gpu.group_devices:
        return f"the members of IOMMU group {gpu.iommu_group} could not be read"
    if gpu.boot_vga:
        return "it is the host's console"
    if gpu.vfs:
        return f"{len(gpu.vfs)} VFs are on (a layout with vfs: 0 turns them off)"
    if gpu.mig is not None and gpu.mig.enabled:
        return "MIG mode is on (a layout with mig: false turns it off)"
    _, strangers = frameworks.companions(gpu)
    if strangers:
        return f"IOMMU group {gpu.iommu_group} also holds {', '.join(strangers)}"
    return ""

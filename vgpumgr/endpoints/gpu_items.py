"""GPUs in JSON: facts, partitioning, and what they hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr import catalog
from vgpumgr.access.tenant_view import gpu_for_tenant, usage_within
from vgpumgr.endpoints.host_looks import Look, look_item
from vgpumgr.endpoints.layout_items import (
    GoalItem,
    SchedulerTimingItem,
    goal_item,
    timing_item,
)
from vgpumgr.endpoints.refusal_items import Refusals, refusals_item
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuRecord, PowerFacts
from vgpumgr.model.health import Evidence
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.refusal import Refusal, of_place
from vgpumgr.model.supply import GpuSupply, InstanceSupply, Usage

if TYPE_CHECKING:
    from vgpumgr.model.ledger import Ledger


class GuestItem(TypedDict):
    """A vGPU in a GPU instance: a VM's of ours, or ``foreign``."""

    vm: str
    foreign: str
    profile: str


class InstanceItem(TypedDict):
    """A GPU instance, from slice ``start``; ``id`` null: its place is held, and it is not made yet.
    ``compute`` are the profile ids of its compute instances.
    """

    id: int | None
    profile: str
    start: int
    size: int
    compute: list[int]
    made_for_vm: bool
    vgpus: list[GuestItem]


class MigItem(TypedDict):
    """MIG of a GPU; ``instances`` null: unread. ``no_vgpus`` is why none lies in its instances."""

    enabled: bool
    pending: bool
    instances: list[InstanceItem] | None
    no_vgpus: str


class VfsItem(TypedDict):
    """How many VFs a GPU can have, how many are on, and how many of these are free."""

    total: int
    on: int
    free: int


class SetLayout(TypedDict):
    """The Layout that a GPU is declared to have; ``settled``: it was reached."""

    name: str
    settled: bool
    declared: GoalItem


class PowerLimits(TypedDict):
    """The enforced power limit, the board's default and bounds in watts; the range in MHz to which
    the clocks are locked, empty where they are not.
    """

    limit_w: int
    default_w: int
    least_w: int
    most_w: int
    locked_clocks_mhz: list[int]


class PartitioningItem(TypedDict):
    """How the GPU is partitioned, and how it is declared to be (``layout`` null: not at all)."""

    mig: MigItem | None
    vfs: VfsItem | None
    mixed_size: bool | None
    scheduler: str | None
    scheduler_timing: SchedulerTimingItem | None
    power_limits: PowerLimits | None
    layout: SetLayout | None


class GpuFabric(TypedDict):
    """A GPU on an NVSwitch."""

    module_id: int | None
    state: str | None
    nvlinks: int | None


class GpuType(TypedDict):
    """A profile that the GPU can make: ``available`` more of it now, or after ``layout``."""

    type_id: str
    profile: str
    framework: str
    available: int
    layout: str


class HeldPart(TypedDict):
    """A GPU part that a VM holds."""

    vm: str
    profile: str
    device: str


class ForeignPart(TypedDict):
    """A GPU part that others use, and what it is."""

    profile: str
    what: str


class EvidenceItem(TypedDict):
    """One thing that speaks against a GPU. ``asks`` is the class of what it asks for (``reset``);
    ``standing``: it is read at each look, else it was reported ``count`` times from ``since`` to
    ``last_at``.
    """

    signal: str
    asks: str
    text: str
    standing: bool
    since: Time
    last_at: Time
    count: int


class GpuItem(Refusals, Look, PartitioningItem):
    """A GPU, as its host showed it at the last look. ``conflict`` is why its board is not what it
    is said to be. ``condition`` is its health by all that is known (``healthy``, ``degraded``,
    ``quarantined``, ``lost``), ``condition_why`` the most serious of its ``evidence``; ``xids``
    are how often each Xid was reported.
    """

    name: str
    host: str
    device: str
    model: str
    driver_name: str
    uuid: str | None
    serial: str | None
    memory_mib: int | None
    driver: str | None
    numa_node: int | None
    iommu_group: int | None
    siblings: list[str]
    state: str
    state_why: str
    health: str
    health_detail: str
    condition: str
    condition_why: str
    condition_since: Time | None
    evidence: list[EvidenceItem]
    xids: dict[str, int]
    conflict: str
    ecc: bool | None
    units: int
    units_used: int
    fabric: GpuFabric | None
    types: list[GpuType]
    allocations: list[HeldPart]
    foreign: list[ForeignPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGpu:
    """One GPU with all that is known of it. ``supply`` None: its host was never probed."""

    gpu: GpuRecord
    supply: GpuSupply | None
    held: Sequence[Allocation]
    layout: LayoutRecord | None
    look: Look
    refusals: Sequence[Refusal] = ()


def seen_gpus(ledger: Ledger) -> list[SeenGpu]:
    """All GPUs, by host and device."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    view = read_view(ledger)
    held: dict[str, list[Allocation]] = {}
    for allocation in view.allocations:
        held.setdefault(allocation.gpu, []).append(allocation)
    supplies = {gpu.id: gpu for host in build_fleet(view).hosts for gpu in host.gpus}
    layouts = {record.gpu: record for record in view.layouts}
    looks = {host.name: look_item(host) for host in view.hosts}
    return [
        SeenGpu(
            gpu=gpu,
            supply=supplies.get(gpu.id),
            held=held.get(gpu.id, ()),
            layout=layouts.get(gpu.id),
            look=looks.get(gpu.host) or look_item(None),
            refusals=of_place(view.refusals, gpu.host, gpu.id),
        )
        for gpu in view.gpus
    ]


def gpu_item(seen: SeenGpu, vms: Collection[str] | None = None, *, types: bool = True) -> GpuItem:
    """The JSON of a GPU; of its parts only those of ``vms`` are named, where these are given.

    ``types`` False leaves out what it could make: for a large fleet that takes a while.
    """
    made = _types(seen.supply) if types else []
    if vms is not None:
        seen = _within(seen, vms)
    gpu, facts = seen.gpu, seen.gpu.facts
    foreign = [usage for usage in seen.supply.usages if usage.foreign] if seen.supply else []
    used = sum(len(each.slots) for each in seen.held) + sum(each.units for each in foreign)
    return {
        "name": gpu.id,
        "host": gpu.host,
        "device": facts.device,
        "model": facts.model,
        "driver_name": facts.name,
        "uuid": facts.uuid,
        "serial": facts.serial,
        "memory_mib": facts.memory_mib,
        "driver": facts.driver,
        "numa_node": facts.numa_node,
        "iommu_group": facts.iommu_group,
        "siblings": list(facts.siblings),
        "state": str(gpu.state),
        "state_why": gpu.state_why,
        **refusals_item(seen.refusals, vms),
        "health": str(facts.health),
        "health_detail": facts.health_detail,
        "condition": str(gpu.condition),
        "condition_why": gpu.health.why,
        "condition_since": gpu.health.since or None,
        "evidence": [evidence_item(each) for each in gpu.health.evidence],
        "xids": dict(gpu.health.xids),
        "conflict": catalog.contradiction(facts),
        "ecc": facts.ecc,
        **seen.look,
        "units": gpu.units,
        "units_used": min(used, gpu.units),
        **partitioning(seen),
        "fabric": _fabric(facts),
        "types": made,
        "allocations": [
            {"vm": each.vm, "profile": each.profile, "device": each.device} for each in seen.held
        ],
        "foreign": [{"profile": each.profile, "what": each.foreign} for each in foreign],
    }


def evidence_item(each: Evidence) -> EvidenceItem:
    """The JSON of one thing that speaks against a GPU."""
    return {
        "signal": each.signal,
        "asks": str(each.asks),
        "text": each.text,
        "standing": each.standing,
        "since": each.since,
        "last_at": each.last,
        "count": each.count,
    }


def _within(seen: SeenGpu, vms: Collection[str]) -> SeenGpu:
    """The GPU as somebody sees it whose VMs are these."""
    supply = seen.supply
    if supply is not None:
        usages = tuple(usage_within(each, vms) for each in supply.usages)
        supply = replace(supply, usages=usages)
    held = [each for each in seen.held if each.vm in vms]
    return replace(seen, gpu=gpu_for_tenant(seen.gpu), supply=supply, held=held)


def partitioning(seen: SeenGpu) -> PartitioningItem:
    """The JSON of a GPU's partitioning."""
    facts = seen.gpu.facts
    return {
        "mig": _mig(seen),
        "vfs": _vfs(seen),
        "mixed_size": facts.mixed_size,
        "scheduler": facts.scheduler,
        "scheduler_timing": timing_item(facts.scheduler_timing),
        "power_limits": None if facts.power is None else _power(facts.power),
        "layout": None if seen.layout is None else _layout(seen.layout),
    }


def _power(power: PowerFacts) -> PowerLimits:
    return {
        "limit_w": power.limit_w,
        "default_w": power.default_w,
        "least_w": power.least_w,
        "most_w": power.most_w,
        "locked_clocks_mhz": list(power.locked_clocks),
    }


def _layout(record: LayoutRecord) -> SetLayout:
    return {
        "name": record.layout,
        "settled": record.settled,
        "declared": goal_item(record.goal),
    }


def _mig(seen: SeenGpu) -> MigItem | None:
    mig = seen.gpu.facts.mig
    if mig is None:
        return None
    supplied = seen.supply.instances if seen.supply else ()
    unread = mig.instances is None
    return {
        "enabled": mig.enabled,
        "pending": mig.pending,
        "instances": None if unread else [_instance(seen, each) for each in supplied],
        "no_vgpus": seen.supply.no_mig_vgpus if seen.supply else "",
    }


def _instance(seen: SeenGpu, instance: InstanceSupply) -> InstanceItem:
    guests = [u for u in seen.supply.usages if u.start == instance.start] if seen.supply else []
    return {
        "id": instance.id,
        "profile": instance.profile,
        "start": instance.start,
        "size": instance.size,
        "compute": [each.profile_id for each in _compute(seen.gpu.facts, instance.start)],
        "made_for_vm": any(
            each.instance.make and each.instance.start == instance.start
            for each in seen.held
            if each.instance is not None
        ),
        "vgpus": [_guest(each) for each in guests],
    }


def _compute(facts: GpuFacts, start: int) -> tuple[ComputeInstance, ...]:
    found = facts.mig.instances if facts.mig else None
    return next((each.compute for each in found or () if each.start == start), ())


def _guest(usage: Usage) -> GuestItem:
    return {"vm": usage.vm, "foreign": usage.foreign, "profile": usage.profile}


def _vfs(seen: SeenGpu) -> VfsItem | None:
    facts = seen.gpu.facts
    if not facts.sriov_total and not facts.vfs:
        return None
    free = len(seen.supply.free_vfs) if seen.supply else 0
    return {"total": facts.sriov_total, "on": len(facts.vfs), "free": free}


def _fabric(facts: GpuFacts) -> GpuFabric | None:
    found: GpuFabric = {
        "module_id": facts.module_id,
        "state": facts.fabric_state,
        "nvlinks": facts.nvlinks,
    }
    return None if set(found.values()) == {None} else found


def _types(supply: GpuSupply | None) -> list[GpuType]:
    from vgpumgr.engine.capacity.relayout_capacity import creatable

    return [
        {
            "type_id": each.type_id,
            "profile": each.profile,
            "framework": each.framework,
            "available": each.fits,
            "layout": each.layout,
        }
        for each in (creatable(supply) if supply else ())
    ]

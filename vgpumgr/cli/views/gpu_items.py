"""GPUs as the reading commands show them: facts, partitioning, and what lives where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr import catalog
from vgpumgr.cli.context import Context
from vgpumgr.cli.output import chosen_format
from vgpumgr.cli.views.ages import look_item
from vgpumgr.cli.views.layout_plans import goal_item
from vgpumgr.cli.views.refusals import refusals_item
from vgpumgr.model.gpu import ComputeInstance, GpuFacts, GpuRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.placement import GpuSupply, InstanceSupply, Usage
from vgpumgr.model.refusal import Refusal, of_place
from vgpumgr.model.vm import Allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One GPU with all that is known of it. ``supply`` None: its host was never probed."""

    gpu: GpuRecord
    supply: GpuSupply | None
    held: Sequence[Allocation]
    layout: LayoutRecord | None
    look: dict[str, Any]
    refusals: Sequence[Refusal] = ()


def gpu_items(context: Context) -> list[dict[str, Any]]:
    """All GPUs with what they hold, foreign things included; their types where they are shown."""
    types = chosen_format().name in {"json", "yaml"}
    return [gpu_item(each, types=types) for each in seen_gpus(context)]


def seen_gpus(context: Context) -> list[Seen]:
    """All GPUs, by host and device."""
    from vgpumgr.engine.supply import build_fleet
    from vgpumgr.engine.view import read_view

    view = read_view(context.app.ledger)
    held: dict[str, list[Allocation]] = {}
    for allocation in view.allocations:
        held.setdefault(allocation.gpu, []).append(allocation)
    supplies = {gpu.id: gpu for host in build_fleet(view).hosts for gpu in host.gpus}
    layouts = {record.gpu: record for record in view.layouts}
    looks = {host.name: look_item(host) for host in view.hosts}
    return [
        Seen(
            gpu=gpu,
            supply=supplies.get(gpu.id),
            held=held.get(gpu.id, ()),
            layout=layouts.get(gpu.id),
            look=looks.get(gpu.host) or look_item(None),
            refusals=of_place(view.refusals, gpu.host, gpu.id),
        )
        for gpu in view.gpus
    ]


def gpu_item(seen: Seen, *, types: bool = True) -> dict[str, Any]:
    """The JSON of a GPU, as its host showed it at the last look.

    ``types`` False leaves out what it could make: for a large fleet that takes a while.
    """
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
        **refusals_item(seen.refusals),
        "health": str(facts.health),
        "health_detail": facts.health_detail,
        "conflict": catalog.contradiction(facts),
        "ecc": facts.ecc,
        **seen.look,
        "units": gpu.units,
        "units_used": min(used, gpu.units),
        **partitioning(seen),
        "fabric": _fabric(facts),
        "types": _types(seen.supply) if types else [],
        "allocations": [
            {"vm": each.vm, "profile": each.profile, "device": each.device} for each in seen.held
        ],
        "foreign": [{"profile": each.profile, "what": each.foreign} for each in foreign],
    }


def partitioning(seen: Seen) -> dict[str, Any]:
    """How the GPU is partitioned, and how it is declared to be (``layout`` null: not at all)."""
    facts, record = seen.gpu.facts, seen.layout
    return {
        "mig": _mig(seen),
        "vfs": _vfs(seen),
        "mixed_size": facts.mixed_size,
        "scheduler": facts.scheduler,
        "layout": record
        and {"name": record.layout, "settled": record.settled, "declared": goal_item(record.goal)},
    }


def _mig(seen: Seen) -> dict[str, Any] | None:
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


def _instance(seen: Seen, instance: InstanceSupply) -> dict[str, Any]:
    """One GPU instance; ``id`` null: we hold its place, and it is not made yet."""
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


def _guest(usage: Usage) -> dict[str, Any]:
    return {"vm": usage.vm, "foreign": usage.foreign, "profile": usage.profile}


def _vfs(seen: Seen) -> dict[str, int] | None:
    facts = seen.gpu.facts
    if not facts.sriov_total and not facts.vfs:
        return None
    free = len(seen.supply.free_vfs) if seen.supply else 0
    return {"total": facts.sriov_total, "on": len(facts.vfs), "free": free}


def _fabric(facts: GpuFacts) -> dict[str, Any] | None:
    found = {
        "module_id": facts.module_id,
        "state": facts.fabric_state,
        "nvlinks": facts.nvlinks,
    }
    return None if set(found.values()) == {None} else found


def _types(supply: GpuSupply | None) -> list[dict[str, Any]]:
    """``available`` is how many could be created now; ``layout`` what the GPU lacks for it."""
    from vgpumgr.engine.headroom.creatable import creatable

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

"""The endpoints of GPUs and of what VMs hold of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.figure_items import GpuNow, Hour, gpu_hour
from vgpumgr.endpoints.gpu_items import GpuItem, gpu_item, seen_gpus
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.refusal_items import own_vms
from vgpumgr.endpoints.shapes import ItemList, Name, Time
from vgpumgr.endpoints.top import gpu_figures
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSelection:
    """GPUs of one ``host``, or all. ``refresh``: the hosts are probed first; ``types``: with what
    each GPU can make, which takes a while for a large fleet.
    """

    host: Name | None = None
    refresh: bool = False
    types: bool = False


def list_gpus(context: CallContext, asked: GpuSelection) -> Result[ItemList[GpuItem]]:
    """GPUs with what they hold, foreign things included."""
    ledger = context.app.ledger
    host = ledger.host(asked.host).name if asked.host else None
    unread = refresh(context, [host] if host else []) if asked.refresh else None
    found = (each for each in seen_gpus(ledger) if host in {None, each.gpu.host})
    own = own_vms(context)
    items = [gpu_item(each, own, types=asked.types) for each in found]
    return Result(answer={"items": items}, error=unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGpu:
    """A GPU by its id or a unique prefix of it; or with ``host``, by its device there."""

    name: Name
    host: Name | None = None


def gpu_name(asked: OneGpu) -> str:
    """Its id or ``HOST/DEVICE``."""
    return f"{asked.host}/{asked.name}" if asked.host else asked.name


class ShownGpu(GpuItem):
    """A GPU with what it measures ``now``; null where it was not asked lately. ``hour``: how busy
    it was in each minute of the last hour, from 0 to 1, the oldest first.
    """

    now: GpuNow | None
    hour: Hour


def show_gpu(context: CallContext, asked: OneGpu) -> Result[ShownGpu]:
    """One GPU; NotFound where none or several match."""
    name = gpu_name(asked)
    found = [each for each in seen_gpus(context.app.ledger) if each.gpu.is_called(name)]
    if len(found) != 1:
        problem = "no GPU" if not found else "several GPUs match"
        raise NotFound(f"{problem} {name}", next="vgpumgr gpu list")
    item = gpu_item(found[0], own_vms(context))
    now = gpu_figures(context, item["host"], item["name"])
    hour = gpu_hour(context.app, item["name"])
    return Result(answer={**item, "now": now, "hour": hour})


class AllocationItem(TypedDict):
    """What a VM holds of a GPU, or with ``state`` released, held: slots of it, and the device that
    the VM gets.
    """

    name: str
    id: str
    vm: str
    vm_id: str
    host: str
    gpu: str
    profile: str
    framework: str
    device: str
    state: str
    slots: list[int]
    type_id: str
    parent: str
    companions: list[str]
    vf: int | None
    instance: dict[str, Any] | None
    placement_id: int | None
    frame_rate_limiter: bool | None
    partition: int | None
    memory_mib: int | None
    generation: int
    created_at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFilter:
    """What is held now, or with ``released`` also what was."""

    released: bool = False


def list_allocations(
    context: CallContext, asked: AllocationFilter
) -> Result[ItemList[AllocationItem]]:
    """What VMs hold of which GPU."""
    rows = context.reads.allocations(released=asked.released)
    return Result(answer={"items": [_allocation_item(each) for each in rows]})


def _allocation_item(held: Allocation) -> AllocationItem:
    plain: AllocationItem = to_plain(held)
    return {"name": held.id, **plain}


LIST_GPUS = Endpoint(
    name="gpu.list",
    method=HttpMethod.GET,
    path="/gpus",
    permission=Permission.FLEET_READ,
    summary="GPUs with what they hold.",
    asks=GpuSelection,
    answers=ItemList[GpuItem],
    kind="GPUList",
    work=list_gpus,
    scoped=True,
)
SHOW_GPU = Endpoint(
    name="gpu.show",
    method=HttpMethod.GET,
    path="/gpus/{name}",
    permission=Permission.FLEET_READ,
    summary="One GPU.",
    asks=OneGpu,
    answers=ShownGpu,
    kind="GPU",
    work=show_gpu,
    scoped=True,
)
LIST_ALLOCATIONS = Endpoint(
    name="allocation.list",
    method=HttpMethod.GET,
    path="/allocations",
    permission=Permission.VM_READ,
    summary="What VMs hold of which GPU.",
    asks=AllocationFilter,
    answers=ItemList[AllocationItem],
    kind="AllocationList",
    work=list_allocations,
    scoped=True,
)

ENDPOINTS = (LIST_GPUS, SHOW_GPU, LIST_ALLOCATIONS)

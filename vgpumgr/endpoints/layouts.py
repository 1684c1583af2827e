"""The endpoints of layouts: how GPUs are partitioned, and how they are to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.gpu_items import PartitioningItem, SeenGpu, partitioning, seen_gpus
from vgpumgr.endpoints.host_looks import Look
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.shapes import ItemList, Name

HostNames = Annotated[tuple[Name, ...], ParameterLimits(max_length=10_000)]


class LayoutStateItem(Look, PartitioningItem):
    """How a GPU is partitioned, and how it is declared to be."""

    name: str
    host: str
    device: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutStateFilter:
    """GPUs of these hosts (none named: all). ``refresh``: the hosts are probed first."""

    hosts: HostNames = ()
    refresh: bool = False


def show_layouts(
    context: CallContext, asked: LayoutStateFilter
) -> Result[ItemList[LayoutStateItem]]:
    """GPUs that can be partitioned, and those with a layout."""
    ledger = context.app.ledger
    hosts = [ledger.host(name).name for name in asked.hosts]
    unread = refresh(context, hosts) if asked.refresh else None
    items = [
        _state(each)
        for each in seen_gpus(ledger)
        if (not hosts or each.gpu.host in hosts) and _partitionable(each)
    ]
    return Result(answer={"items": items}, error=unread)


def _partitionable(seen: SeenGpu) -> bool:
    facts = seen.gpu.facts
    return bool(seen.layout or facts.mig or facts.sriov_total or facts.vfs)


def _state(seen: SeenGpu) -> LayoutStateItem:
    facts = seen.gpu.facts
    return {
        "name": seen.gpu.id,
        "host": seen.gpu.host,
        "device": facts.device,
        "model": facts.model,
        **seen.look,
        **partitioning(seen),
    }


SHOW_LAYOUTS = Endpoint(
    name="layout.show",
    method=HttpMethod.GET,
    path="/layouts",
    permission=Permission.LAYOUT_READ,
    summary="How GPUs are partitioned, and how they are declared to be.",
    asks=LayoutStateFilter,
    answers=ItemList[LayoutStateItem],
    kind="LayoutStateList",
    work=show_layouts,
)

ENDPOINTS = (SHOW_LAYOUTS,)

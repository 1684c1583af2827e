"""The endpoint of the map: what lies on each slot of every GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.access.tenant_view import usage_within
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.host_looks import Look, look_item
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.refusal_items import own_vms
from vgpumgr.endpoints.shapes import Time
from vgpumgr.model.ledger_state import Freeze
from vgpumgr.model.supply import GpuSupply, HostSupply, Usage


class InstanceOnMap(TypedDict):
    """A GPU instance, and how many vGPUs are in it; ``units`` counts its slots."""

    profile: str
    start: int
    units: int
    vgpus: int


class UsageOnMap(TypedDict):
    """A GPU part that a VM of ours has, or that is ``foreign``."""

    vm: str
    foreign: str
    profile: str
    units: int
    start: int | None


class GpuOnMap(TypedDict):
    """A GPU. ``cells`` has a sign for each of its slots: a letter per usage, ``#`` for foreign use,
    ``=`` for an empty GPU instance, ``.`` for free. ``takes_vfs``: parts of it need VFs.
    """

    id: str
    device: str
    model: str
    blocked: str
    units: int
    free: int
    mixed_size: bool
    free_vfs: int
    takes_vfs: bool
    cells: str
    instances: list[InstanceOnMap]
    usages: list[UsageOnMap]


class HostOnMap(TypedDict):
    """A host with its GPUs, by what placement knows of it."""

    host: str
    blocked: str
    free_vcpus: int
    free_memory_mib: int
    gpus: list[GpuOnMap]


class SeenHostOnMap(HostOnMap, Look):
    """The same, with the last look at the host."""


class FreezeItem(TypedDict):
    """Why the ledger allocates nothing, and since when."""

    why: str
    at: Time


class FleetMap(TypedDict):
    """Every host; ``frozen`` where the ledger may not allocate."""

    name: str
    frozen: FreezeItem | None
    items: list[SeenHostOnMap]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRequest:
    """``refresh``: all hosts are probed first."""

    refresh: bool = False


def show_map(context: CallContext, asked: MapRequest) -> Result[FleetMap]:
    """The map of the fleet, by the last probes."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    unread = refresh(context) if asked.refresh else None
    ledger = context.app.ledger
    view = read_view(ledger)
    looks = {host.name: look_item(host) for host in view.hosts}
    own = own_vms(context)
    items = [
        seen_host_on_map(host if own is None else _within(host, own), looks[host.name])
        for host in build_fleet(view).hosts
    ]
    frozen = freeze_item(ledger.frozen())
    return Result(answer={"name": "map", "frozen": frozen, "items": items}, error=unread)


def _within(host: HostSupply, vms: Collection[str]) -> HostSupply:
    """The host as somebody sees it whose VMs are these."""
    gpus = tuple(
        replace(each, usages=tuple(usage_within(usage, vms) for usage in each.usages))
        if each.usages
        else each
        for each in host.gpus
    )
    return replace(host, gpus=gpus)


def freeze_item(frozen: Freeze | None) -> FreezeItem | None:
    """The JSON of a freeze."""
    return {"why": frozen.why, "at": frozen.at} if frozen else None


def seen_host_on_map(host: HostSupply, look: Look) -> SeenHostOnMap:
    """The JSON of a host on the map: a function of these values alone."""
    return {**host_on_map(host), **look}


def host_on_map(host: HostSupply) -> HostOnMap:
    """The same without the look."""
    return {
        "host": host.name,
        "blocked": host.blocked,
        "free_vcpus": host.free_vcpus,
        "free_memory_mib": host.free_memory_mib,
        "gpus": [_gpu(gpu) for gpu in host.gpus],
    }


def _gpu(gpu: GpuSupply) -> GpuOnMap:
    return {
        "id": gpu.id,
        "device": gpu.device,
        "model": gpu.model,
        "blocked": gpu.blocked,
        "units": gpu.units,
        "free": len(gpu.free_slots),
        "mixed_size": gpu.mixed_size,
        "free_vfs": len(gpu.free_vfs),
        "takes_vfs": any(offer.needs_vf for offer in gpu.offers),
        "cells": cells(gpu),
        "instances": [
            {"profile": i.profile, "start": i.start, "units": len(i.slots), "vgpus": i.vgpus}
            for i in gpu.instances
        ],
        "usages": [
            {
                "vm": u.vm,
                "foreign": u.foreign,
                "profile": u.profile,
                "units": u.units,
                "start": u.start,
            }
            for u in gpu.usages
        ],
    }


# What a cell holds besides a usage's number.
_FREE, _FOREIGN, _EMPTY = -1, -2, -3
_SIGNS = {_FREE: ".", _FOREIGN: "#", _EMPTY: "="}


def cells(gpu: GpuSupply) -> str:
    """A sign per slot, as :class:`GpuOnMap` says; letters go from the left."""
    numbers: dict[int, int] = {}
    return "".join(
        _SIGNS[cell] if cell < 0 else chr(ord("A") + numbers.setdefault(cell, len(numbers)) % 26)
        for cell in _numbers(gpu)
    )


def _numbers(gpu: GpuSupply) -> list[int]:
    """Per slot what is there: those with a known place first, the rest in what is left."""
    found = [_FREE] * gpu.units
    for instance in gpu.instances:
        for slot in instance.slots:
            found[slot] = _EMPTY
    everything = list(enumerate(gpu.usages))
    for number, usage in sorted(everything, key=lambda each: not _places(gpu, each[1])):
        free = _free(found, _places(gpu, usage))
        for slot, _ in zip(free, range(usage.units), strict=False):
            found[slot] = _FOREIGN if usage.foreign else number
    return found


def _places(gpu: GpuSupply, usage: Usage) -> tuple[int, ...]:
    """The slots it may lie in, where they are known: its GPU instance's, or its placement's."""
    if usage.start is None:
        return ()
    for instance in gpu.instances:
        if instance.start == usage.start:
            return instance.slots
    for offer in gpu.offers:
        if offer.profile == usage.profile and offer.instance is None:
            return next((place.slots for place in offer.starts if place.at == usage.start), ())
    return ()


def _free(found: list[int], places: tuple[int, ...]) -> Iterator[int]:
    if places:
        return (slot for slot in places if slot < len(found) and found[slot] in {_FREE, _EMPTY})
    return (slot for slot, cell in enumerate(found) if cell == _FREE)


SHOW_MAP = Endpoint(
    name="map.show",
    method=HttpMethod.GET,
    path="/map",
    permission=Permission.FLEET_READ,
    summary="What lies on each slot of every GPU.",
    asks=MapRequest,
    answers=FleetMap,
    kind="Map",
    work=show_map,
    scoped=True,
)

ENDPOINTS = (SHOW_MAP,)

"""Which GPU of a host a layout gives which goal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from vgpumgr import catalog
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuFacts, GpuRecord
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec


def goals(spec: LayoutSpec, host: HostRecord, gpus: Sequence[GpuRecord]) -> dict[str, GpuLayout]:
    """GPU id → goal, by the first rule that matches; empty where the layout is not for the host.

    Virtual parents are no GPUs to partition. Raises NotFound for a rule's device that the host
    does not have.
    """
    if not applies(spec, host):
        return {}
    here = [gpu for gpu in gpus if gpu.facts.address is not None]
    for rule in spec.rules:
        _require_devices(spec, rule, host, here)
    found = {gpu.id: (gpu.facts, _first(spec.rules, gpu.facts)) for gpu in here}
    return {gpu: _today(goal, facts) for gpu, (facts, goal) in found.items() if goal is not None}


def applies(spec: LayoutSpec, host: HostRecord) -> bool:
    """Is the host named, or does it carry all the labels?"""
    if host.name in spec.hosts:
        return True
    labels = spec.host_labels
    return bool(labels) and all(host.labels.get(key) == labels[key] for key in labels)


def _first(rules: Iterable[LayoutRule], gpu: GpuFacts) -> GpuLayout | None:
    return next((rule.layout for rule in rules if _matches(rule, gpu)), None)


def _today(goal: GpuLayout, gpu: GpuFacts) -> GpuLayout:
    """With the names that the profiles of its board have today."""
    board = catalog.board(gpu.model)
    if board is None or not goal.instances:
        return goal
    named = partial(catalog.name_today, board)
    instances = (
        replace(each, profile=named(each.profile), compute=tuple(map(named, each.compute)))
        for each in goal.instances
    )
    return replace(goal, instances=tuple(instances))


def _matches(rule: LayoutRule, gpu: GpuFacts) -> bool:
    if not rule.models and not rule.devices:
        return True
    models = {each.casefold() for each in rule.models}
    return gpu.device in rule.devices or gpu.model.casefold() in models


def _require_devices(
    spec: LayoutSpec, rule: LayoutRule, host: HostRecord, gpus: Sequence[GpuRecord]
) -> None:
    known = {gpu.facts.device for gpu in gpus}
    for device in rule.devices:
        if device not in known:
            raise NotFound(
                f"layout {spec.name} names {device}, and {host.name} has no such GPU",
                why=f"its GPUs are {', '.join(sorted(known)) or 'none'}",
                next=f"vgpumgr gpu list --host {host.name}",
            )

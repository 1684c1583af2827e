"""How GPUs are partitioned now, as layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr import layout
from vgpumgr.engine.layouts.goals import require_known
from vgpumgr.engine.layouts.made import made_for_vms
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.gpu import GpuFacts, GpuRecord, GpuState
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec


def export(view: LedgerView, hosts: Sequence[str]) -> tuple[LayoutSpec, ...]:
    """How the GPUs of these hosts (all without names) are partitioned now, one Layout per host."""
    require_known(view, hosts)
    made = made_for_vms(view)
    found = []
    for host in view.hosts:
        if hosts and host.name not in hosts:
            continue
        gpus = [gpu for gpu in view.gpus if gpu.host == host.name and _is_there(gpu)]
        rules = [
            LayoutRule(
                layout=layout.export(_without(gpu.facts, made.get(gpu.id, frozenset()))),
                devices=(gpu.facts.device,),
            )
            for gpu in gpus
        ]
        rules = [rule for rule in rules if rule.layout != GpuLayout()]
        if rules:
            found.append(LayoutSpec(name=host.name, hosts=(host.name,), rules=tuple(rules)))
    return tuple(found)


def _is_there(gpu: GpuRecord) -> bool:
    return gpu.facts.address is not None and gpu.state is not GpuState.MISSING


def _without(gpu: GpuFacts, starts: frozenset[int]) -> GpuFacts:
    """The facts less the GPU instances that were created for VMs."""
    if gpu.mig is None or gpu.mig.instances is None:
        return gpu
    left = tuple(each for each in gpu.mig.instances if each.start not in starts)
    return replace(gpu, mig=replace(gpu.mig, instances=left))

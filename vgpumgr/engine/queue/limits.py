"""What no host of the fleet could hold, even with nothing on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vgpumgr.engine.queue.lifting import fleet_without
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import Fleet, GpuSupply, HostSupply, NotPlaced, Placed, Reason
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Placer

NEVER = "never"
_SAID = "no host of the fleet could hold it, even when empty"
# What a change of layout would make room for is not said never to fit.
_NEEDS_LAYOUT = "needs-layout"


def beyond(view: LedgerView, specs: Iterable[VmSpec]) -> dict[str, NotPlaced]:
    """By name those that can never fit; of VMs that start together all that one of them keeps from
    it. Nothing is said while a host was never probed: nobody knows what it could hold.
    """
    wanted = list(specs)
    if not wanted or not view.hosts or any(host.facts is None for host in view.hosts):
        return {}
    fleet = _emptied(view)
    found: dict[str, NotPlaced] = {}
    for group in _groups(wanted):
        placer = Placer(fleet, PlacementPolicy.BREADTH_FIRST)
        for spec in group:
            decision = placer.decide(_bare(spec))
            if isinstance(decision, Placed):
                placer.commit(decision)
            elif all(each.code != _NEEDS_LAYOUT for each in decision.reasons):
                found |= {each.name: _never(each, decision.reasons) for each in group}
                break
    return found


def _groups(specs: Sequence[VmSpec]) -> Iterable[Sequence[VmSpec]]:
    """Those that start together; every other VM is a group of its own."""
    groups: dict[str, list[VmSpec]] = {}
    for spec in specs:
        together = spec.queue.together if spec.queue else ""
        groups.setdefault(f"together {together}" if together else spec.name, []).append(spec)
    return groups.values()


def _bare(spec: VmSpec) -> VmSpec:
    """Its size alone: disks, images and networks may yet come to a host."""
    return replace(spec, disks=(), nics=(), cloud_init=None)


def _never(spec: VmSpec, reasons: Sequence[Reason]) -> NotPlaced:
    hint = "`queue: {await_hosts: true}` lets it wait for new hosts"
    said = Reason(code=NEVER, host="", text=f"{_SAID}; {hint}")
    return NotPlaced(request=spec, reasons=(said, *reasons))


def _emptied(view: LedgerView) -> Fleet:
    """As if every VM, of ours and of others, had gone, and nothing kept a host from taking any."""
    alone = replace(view, hosts=tuple(_without_strangers(host, view) for host in view.hosts))
    fleet = fleet_without(alone, {vm.id for vm in view.vms})
    return Fleet(hosts=tuple(map(_open, fleet.hosts)))


def _without_strangers(host: HostRecord, view: LedgerView) -> HostRecord:
    assert host.facts is not None, "every host was probed"
    ours = {each.device for each in view.allocations if each.host == host.name}
    names = {vm.name for vm in view.vms if vm.host == host.name}
    facts = replace(
        host.facts,
        domains=tuple(each for each in host.facts.domains if each.name in names),
        mdevs=tuple(each for each in host.facts.mdevs if each.uuid in ours),
    )
    return replace(host, facts=facts)


def _open(host: HostSupply) -> HostSupply:
    return replace(host, blocked="", gpus=tuple(map(_whole, host.gpus)))


def _whole(gpu: GpuSupply) -> GpuSupply:
    return replace(gpu, blocked="", available={})

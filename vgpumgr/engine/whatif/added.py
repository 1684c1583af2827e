"""Hosts that are not there: empty ones like another, or as a probe would show them. Pure."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from vgpumgr.engine.observe import with_budgets
from vgpumgr.engine.view import LedgerView
from vgpumgr.engine.whatif import bare
from vgpumgr.engine.whatif.partitioned import goals, in_words, partitioned
from vgpumgr.engine.whatif.without import places, without
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.host import HostFacts, HostRecord, Membership
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.vm import Allocation, VmRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """New hosts with their GPUs, and how these are partitioned, in words."""

    hosts: tuple[HostRecord, ...]
    gpus: tuple[GpuRecord, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The same new hosts in each way in which their GPUs can be partitioned; at least one."""

    options: tuple[Option, ...]


def like(view: LedgerView, name: str, count: int, taken: Collection[str] = ()) -> Added:
    """``count`` empty hosts like that one, with labels and partitioning, called ``NAME-new-1``…,
    by names that are not a host's yet and not ``taken``.
    """
    here = emptied(by_host(view)[name])
    known = {*(host.name for host in view.hosts), *taken}
    free = (each for n in itertools.count(1) if (each := f"{name}-new-{n}") not in known)
    names = list(itertools.islice(free, count))
    hosts = tuple(replace(here.hosts[0], name=each) for each in names)
    gpus = tuple(
        replace(gpu, id=f"{each}/{gpu.facts.device}", host=each)
        for each in names
        for gpu in here.gpus
    )
    text = f"like {name}, empty, partitioned as there"
    return Added(options=(Option(hosts=hosts, gpus=gpus, text=text),))


def new(probed: Iterable[HostFacts]) -> Added:
    """Hosts as a first probe shows them, and with their GPUs partitioned otherwise."""
    hosts, gpus = [], []
    for facts in probed:
        seen, slots = with_budgets(facts, {})
        hosts.append(HostRecord(name=facts.host, address="", facts=seen))
        gpus += [
            GpuRecord(
                id=f"{facts.host}/{each.device}",
                host=facts.host,
                facts=each,
                units=slots[each.device],
            )
            for each in seen.gpus
        ]
    as_found = Option(hosts=tuple(hosts), gpus=tuple(gpus), text="partitioned as found")
    return Added(options=(as_found, *_partitioned(as_found)))


def _partitioned(found: Option) -> Iterator[Option]:
    """One option per way that some of the GPUs can be partitioned in."""
    kernels = {host.name: host.facts.versions.kernel for host in found.hosts if host.facts}
    ways = dict.fromkeys(goal for gpu in found.gpus for goal in goals(gpu.facts))
    for goal in ways:
        changed = [_as(gpu, goal, kernels[gpu.host]) for gpu in found.gpus]
        if changed != list(found.gpus):
            yield Option(
                hosts=found.hosts, gpus=tuple(changed), text=f"with a layout: {in_words(goal)}"
            )


def _as(gpu: GpuRecord, goal: GpuLayout, kernel: str) -> GpuRecord:
    return (goal in goals(gpu.facts) and partitioned(gpu, goal, kernel)) or gpu


def by_host(view: LedgerView) -> dict[str, LedgerView]:
    """The parts of a view that are about one host each."""
    gpus, vms = defaultdict[str, list[GpuRecord]](list), defaultdict[str, list[VmRecord]](list)
    held = defaultdict[str, list[Allocation]](list)
    for gpu in view.gpus:
        gpus[gpu.host].append(gpu)
    for vm in view.vms:
        for name in places(vm):
            vms[name].append(vm)
    for each in view.allocations:
        held[each.host].append(each)
    return {
        host.name: replace(
            view,
            hosts=(host,),
            gpus=tuple(gpus[host.name]),
            vms=tuple(vms[host.name]),
            allocations=tuple(held[host.name]),
            layouts=tuple(layout for layout in view.layouts if layout.host == host.name),
        )
        for host in view.hosts
    }


def emptied(view: LedgerView) -> LedgerView:
    """A view of one host with nothing on it: no VM, no domain, no vGPU, no foreign device; open.

    How its GPUs are partitioned stays.
    """
    left = without(view, {vm.name for vm in view.vms})
    return replace(
        left,
        hosts=tuple(map(_host, left.hosts)),
        gpus=tuple(map(_gpu, left.gpus)),
        vms=(),
        allocations=(),
        layouts=(),
    )


def _host(host: HostRecord) -> HostRecord:
    facts = host.facts and replace(
        host.facts, domains=(), mdevs=(), claims=(), foreign_mdev_definitions=()
    )
    return replace(
        host,
        cordoned=False,
        last_error="",
        settled_boot="",
        membership=Membership.MEMBER,
        facts=facts,
    )


def _gpu(gpu: GpuRecord) -> GpuRecord:
    facts = replace(gpu.facts, vfs=tuple(map(bare.emptied, gpu.facts.vfs)))
    return replace(gpu, facts=bare.uncounted(facts), state=GpuState.HEALTHY)

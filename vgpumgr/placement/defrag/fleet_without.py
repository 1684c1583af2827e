"""A fleet's supply without some of its VMs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import (
    Fleet,
    GpuSupply,
    HostSupply,
    InstanceSupply,
    NicSupply,
    NumaSupply,
)
from vgpumgr.model.vm import VmSpec


def without(fleet: Fleet, held: Iterable[Placed]) -> Fleet:
    """The supply after these VMs have left; GPU instances that were made for them are gone too.

    What a driver counted on a GPU is not known any more once a VM has left it.
    """
    here: dict[str, list[Placed]] = {}
    for placed in held:
        here.setdefault(placed.host, []).append(placed)
    hosts = (_host(host, here[host.name]) if host.name in here else host for host in fleet.hosts)
    return Fleet(hosts=tuple(hosts))


def one_by_one(bare: Fleet, held: Iterable[Placed]) -> Iterator[Placed]:
    """The same VMs so that they can be placed again: a shared GPU instance is made by the first."""
    there: set[tuple[str, int | None]] = {
        (gpu.id, each.start) for host in bare.hosts for gpu in host.gpus for each in gpu.instances
    }
    for placed in held:
        parts = []
        for part in placed.assignments:
            makes = part.offer.instance is not None and (part.gpu, part.start) not in there
            parts.append(replace(part, make_instance=makes))
            there.add((part.gpu, part.start))
        yield replace(placed, assignments=tuple(parts))


def _host(host: HostSupply, held: Sequence[Placed]) -> HostSupply:
    plain = [each for each in held if not each.request.hugepage_kib]
    parts: dict[str, list[Assignment]] = {}
    for each in held:
        for part in each.assignments:
            parts.setdefault(part.gpu, []).append(part)
    names = {each.request.name for each in held}
    return replace(
        host,
        free_vcpus=host.free_vcpus + sum(each.request.vcpus for each in held),
        free_memory_mib=host.free_memory_mib + sum(each.request.memory_mib for each in plain),
        numa=tuple(_node(node, held) for node in host.numa),
        nics=tuple(_nic(nic, held) for nic in host.nics),
        vm_labels=_less(host.vm_labels, [each.request.labels for each in held]),
        gpus=tuple(
            _gpu(gpu, parts[gpu.id], names) if gpu.id in parts else gpu for gpu in host.gpus
        ),
    )


def _node(node: NumaSupply, held: Sequence[Placed]) -> NumaSupply:
    """Huge pages of VMs that are bound to no node are given back to the first one."""
    bound = [each.request for each in held if each.numa_node == node.id]
    plain = sum(each.memory_mib for each in bound if not each.hugepage_kib)
    pages = dict(node.free_hugepages)
    for size in pages:
        pages[size] += sum(_pages(each, size) for each in bound)
    return replace(
        node,
        free_cpus=tuple(sorted({*node.free_cpus, *_cpus(node, held)})),
        free_memory_mib=node.free_memory_mib + plain,
        free_hugepages=pages,
    )


def _cpus(node: NumaSupply, held: Sequence[Placed]) -> Iterable[int]:
    """Pinned CPUs; a VM is pinned to those of its node."""
    return (cpu for each in held if each.numa_node == node.id for cpu in each.cpus)


def _nic(nic: NicSupply, held: Sequence[Placed]) -> NicSupply:
    gone = {address for each in held for address in each.nic_functions}
    free = tuple(vf for vf in nic.vfs if vf in nic.free or vf.address in gone)
    return replace(nic, free=free) if gone else nic


def _pages(request: VmSpec, size_kib: int) -> int:
    return -(-request.memory_mib * 1024 // size_kib) if request.hugepage_kib == size_kib else 0


def _less(
    labels: Sequence[Mapping[str, str]], gone: Sequence[Mapping[str, str]]
) -> tuple[Mapping[str, str], ...]:
    left = list(labels)
    for each in gone:
        left.remove(each)
    return tuple(left)


def _gpu(gpu: GpuSupply, gone: Sequence[Assignment], names: set[str]) -> GpuSupply:
    made = {part.start for part in gone if part.make_instance}
    carved = [_instance(each, gone) for each in gpu.instances]
    ended = [each for each in carved if each.start in made and not each.vgpus]
    inside = {slot for each in gpu.instances for slot in each.slots}
    freed = {slot for part in gone for slot in part.slots} - inside
    freed |= {slot for each in ended for slot in each.slots}
    vfs = {*gpu.free_vfs, *(part.vf for part in gone if part.vf)}
    return replace(
        gpu,
        free_slots=tuple(sorted({*gpu.free_slots, *freed})),
        usages=tuple(usage for usage in gpu.usages if usage.vm not in names),
        instances=tuple(each for each in carved if each not in ended),
        free_vfs=tuple(sorted(vfs, key=lambda vf: vf.number)),
        available={},
    )


def _instance(each: InstanceSupply, gone: Sequence[Assignment]) -> InstanceSupply:
    inside = [p for p in gone if p.offer.instance is not None and p.start == each.start]
    free = {*each.free, *(slot for part in inside for slot in part.slots)}
    left = each.vgpus - len(inside)
    return replace(
        each,
        free=tuple(sorted(free)),
        vgpus=left,
        size_class=each.size_class if left else 0,
    )

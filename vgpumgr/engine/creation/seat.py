"""Where a VM lies on its host's NUMA nodes, as placement chose. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from vgpumgr.engine.creation.site import Site
from vgpumgr.model.domain import NumaSeat, NumaShare
from vgpumgr.model.host import NumaNode
from vgpumgr.model.vm import Allocation, NumaPolicy, VmRecord


def numa_seat(vm: VmRecord, allocations: Sequence[Allocation], site: Site) -> NumaSeat | None:
    """The seat; None where nothing was chosen, and the VM may lie anywhere.

    One node where placement chose one. A VM that no single node holds (its GPUs or its pinned CPUs
    lie on several, or it has more vCPUs than a node has CPUs) is split over the nodes: they have
    their vCPUs by their CPUs, and memory by their vCPUs. Memory is bound strictly where placement
    counted it there and there alone: with ``numa: require``, huge pages, or pinned CPUs.
    """
    if vm.spec.numa is NumaPolicy.NONE:
        return None
    nodes = {node.id: node for node in site.facts.numa}
    strict = _is_strict(vm)
    chosen = nodes.get(vm.numa_node) if vm.numa_node is not None else None
    if chosen is not None and (strict or _holds([chosen], vm)):
        return NumaSeat(shares=(_whole(chosen, vm),), strict=strict)
    if vm.numa_node is not None and chosen is None:
        share = NumaShare(node=vm.numa_node)
        return NumaSeat(shares=(share,), strict=True) if strict else None
    shares = _shares(_spanned(vm, allocations, site), vm)
    return NumaSeat(shares=shares) if len(shares) > 1 else None


def _is_strict(vm: VmRecord) -> bool:
    spec = vm.spec
    counted = bool(vm.cpus) or spec.hugepage_kib is not None or spec.numa is NumaPolicy.REQUIRE
    return counted and vm.numa_node is not None


def _whole(node: NumaNode, vm: VmRecord) -> NumaShare:
    vcpus = tuple(range(vm.spec.vcpus))
    return NumaShare(node=node.id, cpus=node.cpus, vcpus=vcpus, memory_mib=vm.spec.memory_mib)


def _holds(nodes: Sequence[NumaNode], vm: VmRecord) -> bool:
    """Have they a CPU for each vCPU?"""
    return sum(len(node.cpus) for node in nodes) >= vm.spec.vcpus


def _spanned(vm: VmRecord, allocations: Sequence[Allocation], site: Site) -> list[NumaNode]:
    """The nodes of its pinned CPUs; else those of its GPUs, and more until each vCPU has a CPU."""
    able = [node for node in site.facts.numa if node.cpus]
    if vm.cpus:
        return [node for node in able if not set(node.cpus).isdisjoint(vm.cpus)]
    near = {site.gpus[each.gpu].facts.numa_node for each in allocations if each.gpu in site.gpus}
    near |= {vm.numa_node}
    found = [node for node in able if node.id in near]
    if len(found) < 2 and any(_holds([node], vm) for node in found or able):
        return []
    for node in able:
        if _holds(found, vm):
            break
        if node not in found:
            found.append(node)
    return sorted(found, key=lambda node: node.id)


def _shares(nodes: Sequence[NumaNode], vm: VmRecord) -> tuple[NumaShare, ...]:
    """Empty where the VM is too small for that many."""
    parts = list(_pinned(nodes, vm) if vm.cpus else _split(nodes, vm.spec.vcpus))
    page_mib = max(1, (vm.spec.hugepage_kib or 0) // 1024)
    memory = _portions(vm.spec.memory_mib // page_mib, [len(part) for part in parts])
    if sum(map(len, parts)) != vm.spec.vcpus or not all(parts) or not all(memory):
        return ()
    sizes = [pages * page_mib for pages in memory]
    sizes[-1] += vm.spec.memory_mib - sum(sizes)
    return tuple(
        NumaShare(node=node.id, cpus=node.cpus, vcpus=part, memory_mib=size)
        for node, part, size in zip(nodes, parts, sizes, strict=True)
    )


def _pinned(nodes: Sequence[NumaNode], vm: VmRecord) -> Iterator[tuple[int, ...]]:
    for node in nodes:
        yield tuple(vcpu for vcpu, cpu in enumerate(vm.cpus) if cpu in node.cpus)


def _split(nodes: Sequence[NumaNode], vcpus: int) -> Iterator[tuple[int, ...]]:
    first = 0
    for count in _portions(vcpus, [len(node.cpus) for node in nodes]):
        yield tuple(range(first, first + count))
        first += count


def _portions(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole numbers, as the weights are to each other."""
    whole = sum(weights) or 1
    ends = [total * end // whole for end in accumulate(weights)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]

"""A working copy of one NUMA node, used up as VMs are placed."""

from __future__ import annotations

from vgpumgr.model.placement import NumaSupply


class NodeState:
    """One NUMA node: free CPUs (lowest first), memory in MiB, huge pages by size in KiB."""

    __slots__ = ("cpus", "id", "memory_mib", "pages", "supply")

    def __init__(self, supply: NumaSupply) -> None:
        self.supply = supply
        self.id = supply.id
        self.cpus = sorted(supply.free_cpus)
        self.memory_mib = supply.free_memory_mib
        self.pages = dict(supply.free_hugepages)


def take_pages(nodes: list[NodeState], size_kib: int, count: int) -> None:
    """Use up huge pages, the first node's first."""
    for node in nodes:
        part = min(count, node.pages.get(size_kib, 0))
        if part:
            node.pages[size_kib] -= part
            count -= part


def return_pages(nodes: list[NodeState], size_kib: int, count: int) -> None:
    """The node that was filled last gets its pages back first."""
    for node in reversed(nodes):
        had = node.supply.free_hugepages.get(size_kib, 0)
        part = min(count, had - node.pages.get(size_kib, 0))
        if part:
            node.pages[size_kib] += part
            count -= part

"""A host's memory by NUMA node: ordinary pages and 1 GiB huge pages, taken by running domains."""

from __future__ import annotations

import errno
from collections.abc import Collection
from dataclasses import dataclass, field

from vgpumgr.sim.linux.file_tree import FileTree, refusal

MIB_PER_PAGE = 1024
PAGE_KIB = MIB_PER_PAGE * 1024
NODES = "/sys/devices/system/node"


@dataclass(slots=True)
class Node:
    """One NUMA node; ``mib`` is what no huge page has taken, ``pages`` are 1 GiB huge pages."""

    id: int
    cpus: range
    mib: int
    pages: int
    used_mib: dict[str, int] = field(default_factory=dict)
    used_pages: dict[str, int] = field(default_factory=dict)

    @property
    def free_mib(self) -> int:
        """Ordinary memory that no domain has."""
        return self.mib - sum(self.used_mib.values())

    @property
    def free_pages(self) -> int:
        """Huge pages that no domain has."""
        return self.pages - sum(self.used_pages.values())


class Memory:
    """All nodes of one host. Memory and huge pages are spread evenly over them."""

    def __init__(self, cpus: int, mib: int, pages: int, nodes: int) -> None:
        self.mib = mib
        self.nodes = [
            Node(
                node,
                range(cpus * node // nodes, cpus * (node + 1) // nodes),
                _share(mib, node, nodes) - _share(pages, node, nodes) * MIB_PER_PAGE,
                _share(pages, node, nodes),
            )
            for node in range(nodes)
        ]

    def take(
        self,
        owner: str,
        mib: int,
        *,
        huge: bool,
        nodes: Collection[int] = (),
        strict: bool = True,
    ) -> None:
        """Give a domain memory, or more of it; ENOMEM when it is short.

        From ``nodes`` only where they are named; not ``strict``: from there first.
        """
        allowed = [node for node in self.nodes if not nodes or not strict or node.id in nodes]
        wanted = -(-mib // MIB_PER_PAGE) if huge else mib
        free = {node.id: node.free_pages if huge else node.free_mib for node in allowed}
        if wanted > sum(free.values()):
            raise refusal(errno.ENOMEM)
        for node in sorted(allowed, key=lambda each: (each.id not in nodes, -free[each.id])):
            part = min(wanted, free[node.id])
            used = node.used_pages if huge else node.used_mib
            used[owner] = used.get(owner, 0) + part
            wanted -= part

    def give_back(self, owner: str) -> None:
        """Free all that a domain has."""
        for node in self.nodes:
            node.used_mib.pop(owner, None)
            node.used_pages.pop(owner, None)

    def show(self, tree: FileTree) -> None:
        """The files of /proc and /sys that tell of it."""
        tree.file("/proc/meminfo", self._meminfo)
        ids = f"0-{len(self.nodes) - 1}" if len(self.nodes) > 1 else "0"
        tree.text(f"{NODES}/online", f"{ids}\n")
        tree.text(f"{NODES}/possible", f"{ids}\n")
        for node in self.nodes:
            _show_node(tree, node)

    def _meminfo(self) -> str:
        free = sum(node.free_mib for node in self.nodes)
        return (
            f"MemTotal:       {self.mib * 1024} kB\n"
            f"MemFree:        {free * 1024} kB\n"
            f"MemAvailable:   {free * 1024} kB\n"
            f"HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"
        )


def _share(total: int, node: int, nodes: int) -> int:
    return total * (node + 1) // nodes - total * node // nodes


def _show_node(tree: FileTree, node: Node) -> None:
    at = f"{NODES}/node{node.id}"
    cpus = f"{node.cpus.start}-{node.cpus.stop - 1}" if node.cpus else ""
    total_kib = (node.mib + node.pages * MIB_PER_PAGE) * 1024
    tree.text(f"{at}/cpulist", f"{cpus}\n")
    tree.file(
        f"{at}/meminfo",
        lambda: (
            f"Node {node.id} MemTotal:       {total_kib} kB\n"
            f"Node {node.id} MemFree:        {node.free_mib * 1024} kB\n"
        ),
    )
    small, large = (f"{at}/hugepages/hugepages-{kib}kB" for kib in (2048, PAGE_KIB))
    tree.text(f"{small}/nr_hugepages", "0\n")
    tree.text(f"{small}/free_hugepages", "0\n")
    tree.text(f"{large}/nr_hugepages", f"{node.pages}\n")
    tree.file(f"{large}/free_hugepages", lambda: f"{node.free_pages}\n")

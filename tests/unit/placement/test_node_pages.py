"""Huge pages of NUMA nodes: what is given back lies where it can have been taken from."""

from __future__ import annotations

import pytest

from vgpumgr.model.supply import NumaSupply
from vgpumgr.placement.resources.host_state import NodeState, return_pages, take_pages

SIZE_KIB = 2048


def nodes(*pages: int) -> list[NodeState]:
    return [
        NodeState(
            NumaSupply(id=number, free_cpus=(), free_memory_mib=0, free_hugepages={SIZE_KIB: count})
        )
        for number, count in enumerate(pages)
    ]


def free(found: list[NodeState]) -> list[int]:
    return [node.pages[SIZE_KIB] for node in found]


@pytest.mark.parametrize(
    ("count", "left"), [(3, [1, 4, 2]), (4, [0, 4, 2]), (6, [0, 2, 2]), (10, [0, 0, 0])]
)
def test_pages_given_back_are_where_they_were_taken(count: int, left: list[int]) -> None:
    found = nodes(4, 4, 2)
    take_pages(found, SIZE_KIB, count)
    assert free(found) == left
    return_pages(found, SIZE_KIB, count)
    assert free(found) == [4, 4, 2]


def test_no_node_gets_more_pages_back_than_it_had() -> None:
    """Of two VMs over three nodes the later one goes first, as a trial placement does."""
    found = nodes(4, 4, 2)
    take_pages(found, SIZE_KIB, 5)
    take_pages(found, SIZE_KIB, 4)
    assert free(found) == [0, 0, 1]
    return_pages(found, SIZE_KIB, 4)
    assert free(found) == [0, 3, 2]
    return_pages(found, SIZE_KIB, 5)
    assert free(found) == [4, 4, 2]

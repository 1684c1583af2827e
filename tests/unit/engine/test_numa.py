"""Where placement put a VM is what its domain says: nodes, CPUs, and cells of the guest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from tests.simworld import SimWorld, host, vm
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import NumaPolicy

GIB = 1024


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """h1: two sockets of 96 CPUs with a T4 each. h2: one node, with a T4."""
    made = SimWorld(
        tmp_path,
        host("T4", "T4", cpus=192, hugepages_1gib=512),
        host("T4", name="h2", cpus=64, numa_nodes=1),
    )
    for record in made.ledger.hosts():
        there = MigrationAddress(address=record.name, tls=False)
        made.ledger.update_host(replace(record, migration=there))
    aside(made, "h2")
    yield made
    made.close()


def aside(world: SimWorld, name: str, *, cordoned: bool = True) -> HostRecord:
    record = replace(world.ledger.host(name), cordoned=cordoned)
    world.ledger.update_host(record)
    return record


def domain(world: SimWorld, name: str = "web", on: str = "h1") -> etree._Element:
    return etree.fromstring(world.sim.hosts[on].domains.xml(name))


def seat(xml: etree._Element) -> tuple[str, list[tuple[str, str]]]:
    """vCPUs' host CPUs by default, and (mode, node) of its memory: whole or by cells."""
    nodes = [(each.get("mode", ""), each.get("nodeset", "")) for each in xml.iterfind("numatune/*")]
    vcpu = xml.find("vcpu")
    return "" if vcpu is None else vcpu.get("cpuset", ""), nodes


def drifts(world: SimWorld) -> list[str]:
    return [each.text for each in world.engine.drift().drifts]


def test_prefer_writes_the_node_that_was_chosen(world: SimWorld) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=8, memory_mib=8 * GIB))
    record = world.ledger.vm("web")
    assert record.numa_node is not None
    cpus = ("0-95", "96-191")[record.numa_node]
    assert seat(domain(world)) == (cpus, [("preferred", str(record.numa_node))])
    assert drifts(world) == []


def test_require_binds_memory_strictly_and_vcpus_to_the_nodes_cpus(world: SimWorld) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=8, memory_mib=8 * GIB, numa=NumaPolicy.REQUIRE))
    node = world.ledger.vm("web").numa_node
    assert seat(domain(world)) == (("0-95", "96-191")[node or 0], [("strict", str(node))])


def test_pinned_vcpus_leave_the_rest_of_qemu_on_their_node(world: SimWorld) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=2, memory_mib=8 * GIB, pin_cpus=True))
    xml, record = domain(world), world.ledger.vm("web")
    assert seat(xml) == (
        ("0-95", "96-191")[record.numa_node or 0],
        [("strict", str(record.numa_node))],
    )
    assert [pin.get("cpuset") for pin in xml.iterfind("cputune/vcpupin")] == list(
        map(str, record.cpus)
    )


@pytest.mark.parametrize("wish", [{"numa": NumaPolicy.NONE}, {"gpus": ()}])
def test_where_nothing_was_chosen_nothing_is_written(
    world: SimWorld, wish: dict[str, object]
) -> None:
    given: dict[str, object] = {"vcpus": 8, "memory_mib": 8 * GIB}
    world.apply(replace(vm("web", "T4-4Q"), **(given | wish)))  # type: ignore[arg-type]
    assert seat(domain(world)) == ("", [])


def test_a_vm_larger_than_a_socket_gets_a_cell_on_each(world: SimWorld) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=160, memory_mib=300 * GIB, hugepage_kib=None))
    xml = domain(world)
    cells = [
        (c.get("cpus"), int(c.get("memory", "0")) >> 20) for c in xml.iterfind("cpu/numa/cell")
    ]
    assert cells == [("0-79", 150), ("80-159", 150)]
    assert seat(xml) == ("0-191", [("preferred", "0"), ("preferred", "1")])
    pins = [pin.get("cpuset") for pin in xml.iterfind("cputune/vcpupin")]
    assert pins == ["0-95"] * 80 + ["96-191"] * 80
    topology = xml.find("cpu/topology")
    assert topology is not None and (topology.get("sockets"), topology.get("cores")) == ("2", "80")
    assert drifts(world) == []


def test_gpus_on_both_sockets_give_cells_with_huge_pages_from_each(world: SimWorld) -> None:
    world.apply(
        vm(
            "web",
            "passthrough",
            "passthrough",
            vcpus=6,
            memory_mib=5 * GIB,
            hugepage_kib=1 << 20,
        )
    )
    cells = [int(c.get("memory", "0")) >> 20 for c in domain(world).iterfind("cpu/numa/cell")]
    assert cells == [2, 3]
    pages = [node.hugepages_free[1 << 20] for node in world.facts().numa]
    assert pages == [254, 253]


def test_pins_over_two_nodes_give_cells_of_those_pins(world: SimWorld) -> None:
    world.apply(vm("web", vcpus=100, memory_mib=100 * GIB, pin_cpus=True))
    xml = domain(world)
    assert [c.get("cpus") for c in xml.iterfind("cpu/numa/cell")] == ["0-95", "96-99"]
    topology = xml.find("cpu/topology")
    assert topology is not None and (topology.get("sockets"), topology.get("cores")) == ("25", "4")
    assert drifts(world) == []


@pytest.mark.parametrize("cold", [False, True])
def test_a_move_fits_it_to_the_nodes_there(world: SimWorld, cold: bool) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=8, memory_mib=8 * GIB))
    assert seat(domain(world))[1]
    aside(world, "h2", cordoned=False)
    world.engine.migrate("web", "h2", cold=cold).raise_for_failure()
    assert seat(domain(world, on="h2")) == ("0-63", [("preferred", "0")])
    assert drifts(world) == []


def test_a_guest_that_runs_keeps_its_cells_where_there_is_one_node(world: SimWorld) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=160, memory_mib=300 * GIB))
    aside(world, "h2", cordoned=False)
    h2 = world.ledger.host("h2")
    world.ledger.update_host(replace(h2, cpu_overcommit=8.0))
    world.engine.migrate("web", "h2").raise_for_failure()
    xml = domain(world, on="h2")
    assert [c.get("cpus") for c in xml.iterfind("cpu/numa/cell")] == ["0-79", "80-159"]
    assert seat(xml) == ("", [])
    assert drifts(world) == []


def edited(world: SimWorld, change: Callable[[str], str]) -> None:
    domains = world.sim.hosts["h1"].domains
    domains.define(change(domains.xml("web")))


def test_a_domain_defined_without_its_node_is_no_drift_until_it_is_defined_anew(
    world: SimWorld,
) -> None:
    world.apply(vm("web", "T4-4Q", vcpus=160, memory_mib=300 * GIB))

    def older(xml: str) -> str:
        for part in (r"<numatune>.*</numatune>", r"<cputune>.*</cputune>", r"<numa>.*</numa>"):
            xml = re.sub(part, "", xml, flags=re.DOTALL)
        xml = re.sub(r' cpuset="[^"]*"', "", xml)
        return re.sub(r'sockets="2" (\S+ )?cores="80"', 'sockets="1" cores="160"', xml)

    edited(world, older)
    assert seat(domain(world)) == ("", [])
    assert drifts(world) == []
    edited(
        world,
        lambda xml: xml.replace(
            "<os>", '<numatune><memory mode="strict" nodeset="1"/></numatune><os>'
        ),
    )
    assert any("NUMA node was added: 1" in each for each in drifts(world))

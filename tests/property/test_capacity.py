"""Capacity counted shape by shape, against the fleet counted and partitioned anew GPU by GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.scenes import scenes
from tests.property.test_placement_properties import fleets
from tests.simworld import NEW, OLD, SimWorld, host, vm
from vgpumgr import gpu as frameworks
from vgpumgr.engine.capacity.profile_capacity import capacity
from vgpumgr.engine.capacity.relayout_capacity import with_layouts
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.hypothetical_layouts import goals, partitioned
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.gpu import Framework, GpuFacts, GpuHealth, GpuRecord
from vgpumgr.model.host import HostRecord, UnknownPart
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, PartitionSupply
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.placement import headroom
from vgpumgr.placement.fleet_room import FleetRoom


def named(host: HostSupply, name: str) -> HostSupply:
    """The host under another name, and its GPUs with it."""
    ids = {gpu.id: f"{name}-{gpu.id}" for gpu in host.gpus}
    partitions = tuple(
        PartitionSupply(id=each.id, gpus=frozenset(ids[gpu] for gpu in each.gpus))
        for each in host.partitions
    )
    gpus = tuple(replace(gpu, id=ids[gpu.id], device=f"of-{name}") for gpu in host.gpus)
    return replace(host, name=name, gpus=gpus, partitions=partitions)


def one_of(shape: VmSpec, profile: str) -> VmSpec:
    return replace(shape, gpus=(GpuRequest(profile=profile),))


def profiles(fleet: Fleet) -> set[str]:
    return {o.profile for each in fleet.hosts for gpu in each.gpus for o in gpu.offers}


@settings(max_examples=150, deadline=None)
@given(
    fleets() | scenes().map(lambda scene: scene[0]),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.sampled_from([(1, 64), (3, 2048), (20, 1024)]),
)
def test_every_profile_has_the_room_that_headroom_counts(
    fleet: Fleet, copies: list[int], needs: tuple[int, int]
) -> None:
    hosts = [
        named(each, f"{each.name}-{number}")
        for count, each in zip(copies, fleet.hosts, strict=False)
        for number in range(count)
    ]
    fleet = Fleet(hosts=(*fleet.hosts, *hosts))
    shape = VmSpec(name="", vcpus=needs[0], memory_mib=needs[1])
    room = FleetRoom(fleet, shape)
    wanted = profiles(fleet) | {"none-makes-it"}
    assert {each: room.fits(each) for each in wanted} == {
        each: headroom(fleet, one_of(shape, each)) for each in wanted
    }


def rebuilt(
    view: LedgerView, helped: Collection[str], made: Collection[str], hosts: Collection[str]
) -> Fleet:
    """These hosts with some of their GPUs partitioned anew."""
    kernels = {each.name: each.facts.versions.kernel for each in view.hosts if each.facts}

    def other(gpu: GpuRecord) -> GpuRecord:
        for goal in goals(gpu.facts):
            found = partitioned(gpu, goal, kernels[gpu.host])
            if found and any(each.profile in made for each in frameworks.offers(found.facts)):
                return found
        return gpu

    gpus = tuple(other(gpu) if gpu.id in helped else gpu for gpu in view.gpus if gpu.host in hosts)
    records = tuple(each for each in view.hosts if each.name in hosts)
    return build_fleet(replace(view, hosts=records, gpus=gpus))


def ways(fleet: Fleet, profile: str) -> tuple[Framework, ...]:
    offers = (o for each in fleet.hosts for gpu in each.gpus for o in gpu.offers)
    return tuple(sorted({o.framework for o in offers if o.profile == profile}))


Room = tuple[int, str, tuple[Framework, ...]]


def after_layouts(view: LedgerView, shape: VmSpec) -> dict[str, Room]:
    """By profile the most that fit after a layout, its lines, and the ways in which it is made:
    each fleet built anew.
    """
    fleet = build_fleet(view)
    best: dict[str, Room] = {
        each: (headroom(fleet, one_of(shape, each)), "", ways(fleet, each))
        for each in profiles(fleet)
    }
    lines: dict[str, set[str]] = {}
    for each in fleet.hosts:
        for gpu in each.gpus:
            now_made = {offer.profile for offer in gpu.offers}
            for profile, line in gpu.could.items():
                if (
                    profile not in now_made
                    and "after" not in line
                    and not line.startswith("vfs: 1")
                ):
                    lines.setdefault(line, set()).add(profile)

    def helps(gpu: GpuSupply, line: str) -> bool:
        able = any(gpu.could.get(each) == line for each in lines[line])
        return able and not (gpu.blocked or gpu.usages)

    for line, wanted in lines.items():
        helped = {
            gpu.id: each.name
            for each in fleet.hosts
            for gpu in each.gpus
            if not each.blocked and helps(gpu, line)
        }
        now = Fleet(hosts=tuple(each for each in fleet.hosts if each.name in helped.values()))
        other = rebuilt(view, helped, wanted, set(helped.values()))
        for profile in wanted & (best.keys() | profiles(other)):
            before, _, made = best.get(profile, (0, "", ways(other, profile)))
            one = one_of(shape, profile)
            in_all = headroom(fleet, one) + headroom(other, one) - headroom(now, one)
            if in_all > before:
                best[profile] = in_all, line, made
    return best


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerView]:
    """One reading of hosts of many kinds, some with a VM, some with a layout."""
    kinds = {
        "ampere": host("A40", "A40", "A100-PCIE-80GB", versions=OLD, name="ampere"),
        "newer": host("A40", "A100-PCIE-80GB", "H100-PCIE-80GB", versions=NEW, name="newer"),
        "turned-on": host("A100-PCIE-80GB", "A100-PCIE-80GB", versions=NEW, name="turned-on"),
        "cut": host("A100-PCIE-80GB", "A100-PCIE-80GB", versions=OLD, name="cut", cpus=8),
        "plain": host("T4", "T4", versions=OLD, name="plain"),
    }
    world = SimWorld(tmp_path_factory.mktemp("seen"), *kinds.values())
    world.engine.refresh_all()
    world.cut(GpuLayout(vfs=VFS_MAX), "turned-on")
    world.cut(GpuLayout(mig=True, vfs=VFS_MAX), "cut")
    world.apply(vm("a", "T4-4Q"), vm("b", "1g.10gb"), vm("c", "A100D-10C"))
    yield world.engine.view()
    world.close()


@st.composite
def changed(draw: st.DrawFn, view: LedgerView) -> LedgerView:
    """Some of the hosts, some several times, with GPUs that are not quite the same."""
    hosts: list[HostRecord] = []
    gpus: list[GpuRecord] = []
    held: list[Allocation] = []
    for name in draw(st.lists(st.sampled_from([each.name for each in view.hosts]), min_size=1)):
        new = f"h{len(hosts)}"
        record = next(each for each in view.hosts if each.name == name)
        assert record.facts is not None
        unknown = draw(st.sampled_from([(), (), (UnknownPart(part="nvml", why="busy"),)]))
        facts = replace(record.facts, host=new, unknown=unknown)
        cordoned = draw(st.integers(0, 5)) == 5
        hosts.append(replace(record, name=new, facts=facts, cordoned=cordoned))
        here = [each for each in view.gpus if each.host == name]
        gpus += [
            replace(gpu, id=f"{new}-{gpu.id}", host=new, facts=draw(other_facts(gpu.facts)))
            for gpu in here
        ]
        held += [
            replace(each, host=new, gpu=f"{new}-{each.gpu}")
            for each in view.allocations
            if each.host == name
        ]
    return replace(
        view, hosts=tuple(hosts), gpus=tuple(gpus), allocations=tuple(held), vms=(), layouts=()
    )


@st.composite
def other_facts(draw: st.DrawFn, facts: GpuFacts) -> GpuFacts:
    """As it is, or otherwise in one part."""
    other: dict[str, object] = draw(
        st.sampled_from(
            [
                *([{}] * 4),
                {"driver": "vfio-pci"},
                {"health": GpuHealth.FAILED},
                {"mig": None},
                {"sriov_total": 0},
                {"mixed_size": None},
                {"memory_mib": 1024},
            ]
        )
    )
    return replace(facts, **other)  # type: ignore[arg-type]


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
def test_a_layout_makes_room_for_as_many_as_a_fleet_that_has_it(
    seen: LedgerView, data: st.DataObject
) -> None:
    view = data.draw(changed(seen))
    shape = VmSpec(name="", vcpus=2, memory_mib=4096)
    room = FleetRoom(build_fleet(view), shape)
    found = with_layouts(view, room, capacity(room))
    assert {
        each.profile: (each.fits_after or each.fits, each.layout, each.frameworks) for each in found
    } == after_layouts(view, shape)

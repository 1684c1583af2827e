"""What is supposed of hosts against what simulated hosts then show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import NEW, OLD, SimWorld, host, vm
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.planning.hypothetical_layouts import goals, partitioned
from vgpumgr.engine.whatif.hypothetical_hosts import hosts_from_probes, hosts_like, view_without_vms
from vgpumgr.model.host import Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.supply import Fleet, GpuSupply, Offer


@pytest.fixture
def worlds() -> Iterator[list[SimWorld]]:
    made: list[SimWorld] = []
    yield made
    for world in made:
        world.close()


def makes(supply: GpuSupply) -> list[Offer]:
    return sorted(supply.offers, key=lambda offer: (offer.profile, offer.framework))


def counts_aside(fleet: Fleet) -> Fleet:
    """The driver's own counts are not known of what is only supposed."""
    return Fleet(
        hosts=tuple(
            replace(each, gpus=tuple(replace(gpu, available={}) for gpu in each.gpus))
            for each in fleet.hosts
        )
    )


@pytest.mark.parametrize(
    ("board", "versions"),
    [
        ("A40", OLD),
        ("A40", NEW),
        ("L40S", NEW),
        ("A100-PCIE-80GB", NEW),
        ("A100-PCIE-80GB", OLD),
        ("FLEX-170", NEW),
    ],
)
def test_a_gpu_partitioned_otherwise_makes_what_it_is_supposed_to(
    board: str, versions: Versions, worlds: list[SimWorld], tmp_path: Path
) -> None:
    world = SimWorld(tmp_path, host(board, versions=versions))
    worlds.append(world)
    world.engine.refresh()
    tried = 0
    for goal in goals(world.ledger.gpus()[0].facts):
        record = world.ledger.gpus()[0]
        supposed = partitioned(record, goal, versions.kernel)
        if supposed is None:
            continue
        tried += 1
        view = world.engine.view()
        (there,) = build_fleet(replace(view, gpus=(supposed,))).hosts[0].gpus
        world.cut(goal)
        world.engine.refresh()
        real = world.supply()
        assert makes(there) == makes(real)
        assert (there.units, len(there.free_vfs)) == (real.units, len(real.free_vfs))
        assert (there.mixed_size, there.gpu_slices) == (real.mixed_size, real.gpu_slices)
    assert tried


@pytest.mark.parametrize(
    ("board", "goal", "profiles"),
    [
        ("T4", None, ("T4-4Q", "T4-4Q")),
        ("A40", GpuLayout(vfs=VFS_MAX), ("A40-8Q", "A40-8Q")),
        ("A100-PCIE-80GB", GpuLayout(mig=True, vfs=VFS_MAX), ("1g.10gb", "2g.20gb")),
    ],
)
@pytest.mark.parametrize("versions", [OLD, NEW])
def test_without_a_vm_the_fleet_is_as_when_it_is_deleted(
    board: str,
    goal: GpuLayout | None,
    profiles: tuple[str, str],
    versions: Versions,
    worlds: list[SimWorld],
    tmp_path: Path,
) -> None:
    world = SimWorld(tmp_path, host(board, versions=versions))
    worlds.append(world)
    if goal is not None:
        world.cut(goal)
    world.apply(vm("stays", profiles[0]), vm("goes", profiles[1]))
    world.engine.refresh()
    supposed = build_fleet(view_without_vms(world.engine.view(), {"goes"}))
    world.delete("goes")
    world.engine.refresh()
    assert counts_aside(supposed) == counts_aside(build_fleet(world.engine.view()))


def test_a_host_like_another_is_empty_and_partitioned_alike(
    worlds: list[SimWorld], tmp_path: Path
) -> None:
    world = SimWorld(tmp_path, host("A40", versions=NEW))
    worlds.append(world)
    world.cut(GpuLayout(vfs=VFS_MAX))
    world.engine.refresh()
    (before,) = build_fleet(world.engine.view()).hosts
    world.apply(vm("a", "A40-8Q"))
    world.engine.refresh()
    (option,) = hosts_like(world.engine.view(), "h1", 2).options
    view = replace(
        world.engine.view(), hosts=option.hosts, gpus=option.gpus, vms=(), allocations=()
    )
    copies = counts_aside(build_fleet(view)).hosts
    assert [copy.name for copy in copies] == ["h1-new-1", "h1-new-2"]
    (empty,) = counts_aside(Fleet(hosts=(before,))).hosts
    for copy in copies:
        gpus = tuple(
            replace(mine, id=theirs.id) for mine, theirs in zip(copy.gpus, empty.gpus, strict=True)
        )
        assert replace(copy, name="h1", gpus=gpus) == empty


def test_a_new_host_comes_in_every_way_its_gpus_can_be_partitioned(
    worlds: list[SimWorld], tmp_path: Path
) -> None:
    world = SimWorld(tmp_path, host("A100-PCIE-80GB", versions=NEW))
    worlds.append(world)
    texts = [option.text for option in hosts_from_probes([world.facts()]).options]
    assert texts == [
        "partitioned as found",
        "with a layout: mig: false, vfs: max",
        "with a layout: mig: false, vfs: max, mixed_size: true",
        "with a layout: mig: true, vfs: max",
    ]

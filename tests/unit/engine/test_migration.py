"""Moves between two hosts: what is done, and what both hosts show after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.movers import BYTES, NEW, assert_settled_on, desk, make, mover, two_hosts
from tests.unit.engine.moving import desk_of_two, moved, refused
from tests.world import World
from vgpumgr.engine.operations.execution import tasks_by_host
from vgpumgr.model.domain import LiveMove, PoolSource
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import NumaNode
from vgpumgr.model.operation import TaskRecord


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with desk_of_two(tmp_path) as made:
        yield made


def test_a_running_vm_moves_with_a_new_device_and_its_own_identity(world: World) -> None:
    before, [old] = world.vm("desk"), world.ledger.allocations()
    moved(world)
    assert_settled_on(world, "h2")
    after, [new] = world.vm("desk"), world.ledger.allocations()
    assert (after.id, after.volumes, after.running) == (before.id, before.volumes, True)
    assert new.id != old.id and new.device != old.device and new.profile == old.profile
    [sent] = [args[0] for name, args in world.hosts["h1"].calls if name == "migrate"]
    assert isinstance(sent, LiveMove)
    assert sent.copied == ("vda",)
    assert new.device in sent.live_xml and new.device in sent.persistent_xml
    assert old.device not in sent.live_xml + sent.persistent_xml
    assert before.id in sent.persistent_xml
    assert old.id in {each.id for each in world.ledger.allocations(released=True)}


def test_the_seed_goes_along_though_qemu_copies_no_cdrom(world: World) -> None:
    seeds = {name for _, name in world.hosts["h1"].volumes if name.endswith(".iso")}
    content = [world.hosts["h1"].uploads[name] for name in seeds]
    moved(world)
    assert [world.hosts["h2"].uploads[name] for name in seeds] == content


def test_a_cold_move_stops_carries_and_starts(world: World) -> None:
    moved(world, cold=True)
    assert_settled_on(world, "h2")
    h1 = [name for name, _ in world.hosts["h1"].calls]
    assert "migrate" not in h1
    assert h1.index("shutdown") < h1.index("copy_to")
    assert BYTES in world.hosts["h2"].uploads.values()


def test_a_vm_that_is_off_stays_off(world: World) -> None:
    world.engine.stop_vms(["desk"], force=True, timeout_s=1.0)
    moved(world)
    assert_settled_on(world, "h2", runs=False)
    assert not world.vm("desk").running


def test_whole_gpus_move_cold(tmp_path: Path) -> None:
    world = two_hosts(tmp_path)
    make(world, desk("passthrough"))
    assert "cannot move while desk runs" in refused(world, Conflict)
    moved(world, cold=True)
    assert_settled_on(world, "h2")
    assert world.hosts["h1"].drivers["0000:41:00.0"] == "nvidia"
    world.close()


def test_a_vm_without_gpu_moves_between_older_hosts(tmp_path: Path) -> None:
    old = replace(NEW, libvirt="9.0.0", qemu="7.2.0")
    world = two_hosts(tmp_path, mover("h1", 1, versions=old), mover("h2", 2, versions=old))
    make(world, desk(profile=""))
    moved(world)
    assert_settled_on(world, "h2")
    world.close()


def test_it_moves_back(world: World) -> None:
    moved(world)
    world.engine.migrate("desk", "h1").raise_for_failure()
    assert_settled_on(world, "h1")


def test_pinning_is_fitted_to_the_target(tmp_path: Path) -> None:
    nodes = (NumaNode(id=0, cpus=(8, 9, 10, 11), memory_mib=65536),)
    world = two_hosts(tmp_path, mover("h1", 1), mover("h2", 2, numa=nodes))
    make(world, desk(pin_cpus=True))
    assert world.vm("desk").cpus == (0, 1)
    moved(world)
    assert world.vm("desk").cpus == (8, 9)
    xml = world.hosts["h2"].xml_by_name["desk"]
    assert 'cpuset="8"' in xml and 'cpuset="0"' not in xml
    world.close()


NAS = PoolSource(hosts=("nas.example",), name="/vms")


def on_nas(folder: Path, *sources: PoolSource) -> World:
    """Two hosts with pools of kind netfs; both see the same files, whatever the pools say."""
    found = zip(("h1", "h2"), sources, strict=True)
    hosts = [
        mover(name, n, pool_kind="netfs", pool_source=source)
        for n, (name, source) in enumerate(found, 1)
    ]
    hosts[1].volumes = hosts[0].volumes
    hosts[1].uploads = hosts[0].uploads
    world = two_hosts(folder, *hosts)
    make(world, desk())
    return world


OTHER_WORDS = [
    replace(NAS, hosts=("nas",)),
    replace(NAS, name="/other"),
    PoolSource(),
    PoolSource(hosts=("localhost",), name="/vms"),
]


@pytest.mark.parametrize("source", OTHER_WORDS)
@pytest.mark.parametrize("cold", [False, True])
def test_a_pool_of_that_name_is_shared_only_where_both_name_one_place(
    tmp_path: Path, source: PoolSource, cold: bool
) -> None:
    """Whichever of them is right: the disk stays, and is not overwritten or deleted."""
    here = source if source.hosts == ("localhost",) else NAS
    world = on_nas(tmp_path, here, source)
    before = dict(world.hosts["h1"].volumes)
    with pytest.raises(Conflict) as caught:
        world.engine.migrate("desk", "h2", cold=cold)
    assert "may be the same storage under another name" in caught.value.why
    assert "vol-delete" not in str(caught.value.next)
    assert world.hosts["h1"].volumes == before
    called = {name for host in world.hosts.values() for name, _ in host.calls}
    assert not called & {"copy_to", "volume_delete"}
    world.close()


def test_disks_on_a_shared_pool_stay(tmp_path: Path) -> None:
    world = on_nas(tmp_path, NAS, NAS)
    hosts = list(world.hosts.values())
    before = set(hosts[0].volumes)
    moved(world)
    assert set(hosts[1].volumes) == before and before
    called = {name for host in hosts for name, _ in host.calls}
    assert not called & {"copy_to", "volume_delete"}
    world.close()


def test_autostart_is_never_set_on_both(world: World) -> None:
    seen: list[int] = []

    def look(_: str) -> None:
        found = (host.domains_by_name.get("desk") for host in world.hosts.values())
        seen.append(sum(each is not None and each.autostart for each in found))

    for host in world.hosts.values():
        host.on_call = look
    moved(world, cold=True)
    assert max(seen) == 1


def test_progress_is_told(world: World) -> None:
    lines: list[str] = []
    engine = replace(world.engine, tell=lines.append)
    engine.migrate("desk", "h2", cold=True).raise_for_failure()
    assert any(
        line.startswith("desk: copy volume default/") and "512 MiB" in line for line in lines
    )
    assert "desk: start domain desk, h1 → h2" in lines


def task(id_: str, host: str, peer: str = "") -> TaskRecord:
    return TaskRecord(
        id=id_, operation="o", vm_id=id_, vm=id_, host=host, peer=peer, verb="x", steps=()
    )


def test_hosts_that_share_a_task_share_a_lane() -> None:
    tasks = [
        task("a", "h1"),
        task("b", "h2"),
        task("c", "h3"),
        task("d", "h2", "h1"),
        task("e", "h1"),
    ]
    lanes = tasks_by_host(tasks)
    assert sorted([each.id for each in lane] for lane in lanes.values()) == [
        ["a", "b", "d", "e"],
        ["c"],
    ]


def test_opposite_moves_share_one_lane() -> None:
    assert (
        len(tasks_by_host([task("a", "h1", "h2"), task("b", "h2", "h1"), task("c", "h3", "h2")]))
        == 1
    )

"""Moves between simulated hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.simulated.values import FIRST
from tests.nshosts import poll
from tests.unit.sim.moving import (
    HERE,
    HOST,
    RUNNING,
    SHUTOFF,
    THERE,
    Two,
    digest,
    fleet,
    mdev,
    started,
    to,
    volume,
    with_vgpu,
)
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import MoveProgress
from vgpumgr.model.host import HostRecord
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.sim import control
from vgpumgr.sim.sim_client import SimHosts


@pytest.fixture
def two() -> Iterator[Two]:
    made = fleet()
    yield made
    made.hosts.close()


def test_a_vm_takes_its_memory_and_its_vgpu_with_it(two: Two) -> None:
    free = two.free_mib("h1")
    two.source.domains.migrate(with_vgpu(two), two.target)
    assert two.states() == (SHUTOFF, RUNNING)
    assert (two.free_mib("h1"), two.free_mib("h2")) == (free, free - 1024)
    assert (two.held("h1"), two.held("h2")) == ({}, {THERE: "vm"})
    vgpus = [each.kernel.nvidia[FIRST].vgpus for each in two.hosts.fleet.hosts.values()]
    assert [each.vm for (each,) in vgpus] == ["", "vm"]
    two.target.domains.destroy("vm")
    assert THERE in two.target.domains.xml("vm")


def test_a_moved_vm_outlives_the_power_of_its_new_host(two: Two) -> None:
    two.source.domains.migrate(with_vgpu(two), two.target)
    two.hosts.fleet.inject("h2", ["reboot"])
    assert two.states() == (SHUTOFF, SHUTOFF)


def test_over_the_socket_a_move_goes_through_and_a_client_may_go(tmp_path: Path) -> None:
    control.up(SimFleet(name="f", hosts=(HOST, replace(HOST, name="h2"))), tmp_path)
    hosts = SimHosts(tmp_path, identity=lambda: ("f", 1))
    source, target = (hosts.open(HostRecord(name=n, address=f"sim://{n}")) for n in ("h1", "h2"))
    try:
        started(source, mdev(source, HERE))
        mdev(target, THERE)
        move = to(source, {HERE: THERE})
        with hosts.session() as call:
            call("h1", "moves", "begin", {"move": to_plain(move)}, None)
            call("h2", "moves", "prepare", {"move": to_plain(move)}, None)
            assert source.domains.migration_progress("vm") == MoveProgress(
                total_bytes=1 << 30, left_bytes=1 << 30
            )
        poll(lambda: target.domains.look("vm") is None, "the receiver's end")
        source.domains.migrate(move, target)
        found = target.domains.look("vm")
        assert found is not None
        assert found.state is RUNNING
        for each in (source, target):
            volume(each)
        source.storage.upload("default", "disk", bytes(range(256)))
        source.storage.copy_to("default", "disk", target, lambda _: None)
        assert digest(source) == digest(target)
    finally:
        hosts.close()
        control.down(tmp_path)

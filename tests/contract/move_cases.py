"""Running VMs from one host to another, with their devices and disks (gpu-facts §10)."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from tests.contract.bench import Cases, claim
from tests.contract.move_bench import POOL, VM, MoveBench, elsewhere, name_of
from vgpumgr import domainxml
from vgpumgr.model.domain import DomainState, PciHostdev
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound
from vgpumgr.model.ports import Host

CASES = Cases[MoveBench]()
# Where both hosts have a kind of device that moves.
DEVICE_CASES = Cases[MoveBench]()
# Where a whole function may be given to a guest.
WHOLE_CASES = Cases[MoveBench]()
# Where both hosts have a storage pool called default.
DISK_CASES = Cases[MoveBench]()

NOWHERE = str(uuid.UUID(int=0))


def runs_as_before(bench: MoveBench) -> None:
    assert bench.seen(bench.source).state is DomainState.RUNNING
    assert bench.target.domains.look(VM) is None
    assert bench.source.domains.migration_progress(VM) is None


def digest(host: Host, path: str) -> object:
    args = {"path": path, "pool_path": path.rpartition("/")[0]}
    return host.helper.call("file_digest", args)


@DEVICE_CASES.case("10.1")
def a_vm_moves_with_its_device_and_home_again(bench: MoveBench) -> None:
    made = (bench.made(bench.source), bench.made(bench.target))
    with made[0] as first, made[1] as there, bench.running(first):
        bench.move({name_of(first): name_of(there)})
        moved, left = bench.seen(bench.target), bench.seen(bench.source)
        assert (moved.state, moved.persistent) == (DomainState.RUNNING, True)
        assert moved.devices == (name_of(there),)
        assert moved.ownership is not None
        assert (moved.ownership.generation, moved.ownership.allocations) == (2, ("a-2",))
        assert domainxml.parse(bench.target.domains.xml(VM)).devices == (name_of(there),)
        assert (left.state, left.devices) == (DomainState.SHUTOFF, (name_of(first),))

        bench.source.domains.undefine(VM)
        bench.drop(bench.source, first)
        with bench.made(bench.source) as second:
            bench.move({name_of(there): name_of(second)}, home=True)
            assert bench.seen(bench.source).state is DomainState.RUNNING
            assert bench.seen(bench.target).state is DomainState.SHUTOFF
            bench.source.domains.destroy(VM)


@CASES.case("10.2")
def a_vm_without_devices_moves(bench: MoveBench) -> None:
    with bench.running():
        bench.move({})
        assert bench.seen(bench.target).state is DomainState.RUNNING
        assert bench.seen(bench.source).state is DomainState.SHUTOFF


@DEVICE_CASES.case("10.3")
def a_device_that_is_not_on_the_target_leaves_the_vm_where_it_is(bench: MoveBench) -> None:
    with bench.made(bench.source) as device, bench.running(device):
        with pytest.raises((HostRefused, NotFound)):
            bench.move({name_of(device): NOWHERE})
        runs_as_before(bench)


@CASES.case("10.4")
def a_name_that_is_taken_on_the_target_keeps_the_vm(bench: MoveBench) -> None:
    other = replace(bench, source=bench.target, target=bench.source)
    with other.running(), bench.running():
        with pytest.raises((Conflict, HostRefused)):
            bench.move({})
        assert bench.seen(bench.source).state is DomainState.RUNNING
        assert bench.seen(bench.source).uuid != bench.seen(bench.target).uuid


@CASES.case("10.5")
def an_address_that_leads_nowhere_leaves_the_vm_where_it_is(bench: MoveBench) -> None:
    with bench.running():
        with pytest.raises(HostRefused):
            bench.move({}, change=lambda move: elsewhere(move, "nowhere.invalid"))
        runs_as_before(bench)


@CASES.case("10.6")
def a_vm_that_is_off_is_not_moved_live(bench: MoveBench) -> None:
    with bench.running():
        xml = bench.source.domains.live_xml(VM)
        bench.source.domains.destroy(VM)
        with pytest.raises(HostRefused):
            bench.source.domains.live_xml(VM)
        with pytest.raises(HostRefused):
            bench.move({}, change=lambda move: replace(move, live_xml=xml))


@CASES.case("10.7")
def nothing_under_way_is_cancelled_resumed_and_told_without_error(bench: MoveBench) -> None:
    with bench.running():
        assert bench.source.domains.migration_progress(VM) is None
        bench.source.domains.cancel_migration(VM)
        bench.source.domains.resume(VM)
        runs_as_before(bench)


@WHOLE_CASES.case("10.8")
def a_vm_with_a_whole_gpu_stays(bench: MoveBench) -> None:
    named = {"address": bench.whole, "claim": claim()}
    bench.source.helper.call("vfio_bind", {**named, "with": []})
    try:
        with bench.running(PciHostdev(address=bench.whole)):
            with pytest.raises(HostRefused) as caught:
                bench.move({bench.whole: bench.whole})
            assert "cannot migrate" in caught.value.why
            runs_as_before(bench)
    finally:
        bench.source.helper.call("vfio_release", named)


@DISK_CASES.case("10.9")
def a_disk_goes_along_with_the_running_vm(bench: MoveBench) -> None:
    with bench.volumes() as disk, bench.running(disk=disk):
        bench.move({}, copied=("vda",))
        assert bench.seen(bench.target).state is DomainState.RUNNING


@DISK_CASES.case("10.10")
def a_disk_that_neither_goes_along_nor_is_shared_keeps_the_vm(bench: MoveBench) -> None:
    with bench.volumes() as disk, bench.running(disk=disk):
        with pytest.raises((HostRefused, InUse)) as caught:
            bench.move({})
        assert "shared storage" in caught.value.why
        runs_as_before(bench)


@DISK_CASES.case("10.11")
def a_volume_is_copied_byte_for_byte(bench: MoveBench) -> None:
    for kind in ("raw", "qcow2"):
        with bench.volumes(kind) as volume:
            if kind == "raw":
                bench.source.storage.upload(POOL, volume.name, b"\x07\x00\x09" * 100_000)
                assert digest(bench.target, volume.path) != digest(bench.source, volume.path)
            before = digest(bench.source, volume.path)
            heard: list[int] = []
            bench.source.storage.copy_to(POOL, volume.name, bench.target, heard.append)
            assert digest(bench.target, volume.path) == digest(bench.source, volume.path) == before
            assert heard == sorted(heard)
            assert heard[-1] > 0


@DISK_CASES.case("10.12")
def a_volume_without_a_namesake_is_not_copied(bench: MoveBench) -> None:
    with bench.volumes() as volume:
        bench.target.storage.delete(POOL, volume.name)
        with pytest.raises(NotFound):
            bench.source.storage.copy_to(POOL, volume.name, bench.target, lambda _: None)

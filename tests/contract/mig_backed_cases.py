"""MIG-backed vGPUs on vendor VFs: admission (§6), places (§5), and the order of a host (§8)."""

from __future__ import annotations

import pytest

from tests.contract.bench import INSUFFICIENT_RESOURCES, INVALID_OPERATION, Cases, claim
from tests.contract.mig_backed_bench import MigBackedBench
from tests.contract.vgpus import TypedVfs, take_away, vf_file
from vgpumgr.model.errors import HostRefused, InUse

CASES = Cases[MigBackedBench]()
REBOOT_CASES = Cases[MigBackedBench]()


# -- admission


@CASES.case("6.1", "5.15")
def without_an_instance_nothing_is_offered_or_made(bench: MigBackedBench) -> None:
    with bench.cut() as carriers:
        assert bench.listed(carriers.vfs[0]) == set()
        for type_id in (bench.small_type, bench.time_sliced):
            with bench.logged(INVALID_OPERATION):
                carriers.make(type_id)
        with pytest.raises(HostRefused) as caught:
            bench.call("vgpu_create", vf=carriers.vfs[0], type=bench.small_type, claim=claim())
        assert "has no GPU instance" in caught.value.why


@CASES.case("6.1")
def a_type_wants_an_instance_of_its_own_profile(bench: MigBackedBench) -> None:
    with bench.cut((bench.large, bench.large_start)) as carriers:
        offered = bench.listed(carriers.vfs[0])
        assert bench.large_type in offered
        assert not offered & {bench.small_type, bench.time_sliced}
        for type_id in (bench.small_type, bench.time_sliced):
            with bench.logged(INVALID_OPERATION):
                carriers.make(type_id)
        carriers.make(bench.large_type)


@CASES.case("6.2")
def a_mig_backed_type_wants_mig_mode(bench: MigBackedBench) -> None:
    vf = bench.vfs(True)[0]
    assert bench.time_sliced in bench.listed(vf)
    assert bench.small_type not in bench.listed(vf)
    with bench.logged(INVALID_OPERATION):
        bench.machine.write(vf_file(vf, "current_vgpu_type"), str(bench.small_type))
    bench.vfs(False)


@CASES.case("6.4")
def a_full_instance_takes_no_more(bench: MigBackedBench) -> None:
    with bench.cut((bench.large, bench.large_start)) as carriers:
        carriers.make(bench.large_type)
        assert bench.listed(carriers.vfs[1]) == set()
        with bench.logged(INSUFFICIENT_RESOURCES):
            carriers.make(bench.large_type)


@CASES.case("6.8", "5.13")
def the_lowest_instance_with_room_is_taken(bench: MigBackedBench) -> None:
    places = [(bench.small, start) for start in reversed(bench.small_starts)]
    with bench.cut(*places) as carriers:
        ids = [bench.told(carriers.make(bench.small_type), "gpu_instance_id") for _ in places]
        assert ids == sorted(each.id for each in bench.instances())


@CASES.case("6.8")
def an_instance_that_the_driver_does_not_choose_is_refused(bench: MigBackedBench) -> None:
    low, high = bench.small_starts[0], bench.small_starts[-1]
    with bench.cut((bench.small, low)) as carriers:
        vf = carriers.vfs[0]
        with pytest.raises(HostRefused) as caught:
            bench.create(vf, bench.behind(high, make=True))
        assert "asked for GPU instance" in caught.value.why
        assert [each.start for each in bench.instances()] == [low]
        seen = bench.call("vgpu_look", vf=vf)
        assert (seen["type"], seen["claim"]) == (0, None)


@CASES.case("6.9")
def time_sliced_and_mig_backed_vgpus_exclude_each_other(bench: MigBackedBench) -> None:
    carriers = TypedVfs(bench.machine, bench.vfs(True))
    vgpu = carriers.make(bench.time_sliced)
    assert bench.nvml.set_mig_mode(bench.pf, True) == "IN_USE"
    with bench.logged(INVALID_OPERATION):
        carriers.make(bench.small_type)
    carriers.drop(vgpu)
    bench.vfs(False)
    with bench.cut((bench.small, bench.small_starts[0])) as cut:
        cut.make(bench.small_type)
        with bench.logged(INVALID_OPERATION):
            cut.make(bench.time_sliced)


# -- instances under vGPUs


@CASES.case("8.9")
def an_instance_with_a_vgpu_is_in_use(bench: MigBackedBench) -> None:
    with bench.cut((bench.small, bench.small_starts[0])) as carriers:
        (there,) = bench.instances()
        carriers.make(bench.small_type)
        assert bench.nvml.destroy_instance(bench.pf, there.id) == "IN_USE"
        with pytest.raises(InUse, match=f"instance {there.id}"):
            bench.destroy(there)
        assert bench.instances() == (there,)


@CASES.case("8.14", "8.15")
def compute_instances_are_the_guests_to_make(bench: MigBackedBench) -> None:
    start = bench.small_starts[0]
    with bench.cut((bench.small, start)) as carriers:
        vgpu = carriers.make(bench.small_type)
        with bench.running("guest", vgpu.hostdev):
            with pytest.raises(HostRefused):
                bench.make(bench.small, start, bench.compute)
            assert bench.instances()[0].compute == ()
        take_away(bench.machine, carriers, vgpu)


@CASES.case("8.16", "5.15", "6.1")
def instances_made_before_the_vfs_are_lost(bench: MigBackedBench) -> None:
    with bench.mig_mode():
        bench.make(bench.small)
        carriers = TypedVfs(bench.machine, bench.vfs(True))
        assert bench.instances() == ()
        assert bench.listed(carriers.vfs[0]) == set()
        with bench.logged(INVALID_OPERATION):
            carriers.make(bench.small_type)
        bench.make(bench.small)
        assert bench.small_type in bench.listed(carriers.vfs[0])


@CASES.case("8.17", "4.16")
def a_host_is_taken_down_from_the_top(bench: MigBackedBench) -> None:
    with bench.cut((bench.small, bench.small_starts[0])) as carriers:
        vf = carriers.vfs[0]
        bench.create(vf, bench.behind(bench.small_starts[0], make=False))
        (there,) = bench.instances()
        with pytest.raises(InUse):
            bench.vfs(False)
        with pytest.raises(InUse):
            bench.destroy(there)
        with pytest.raises(HostRefused):
            bench.set_mode(False)
        assert bench.call("vgpu_look", vf=vf)["type"] == bench.small_type
        assert bench.instances() == (there,)
        bench.release(vf)


@CASES.case("5.13")
def an_instance_made_for_a_vgpu_goes_with_it(bench: MigBackedBench) -> None:
    start = bench.small_starts[-1]
    with bench.cut() as carriers:
        vf = carriers.vfs[0]
        made = bench.create(vf, bench.behind(start, make=True))["instance"]
        (there,) = bench.instances()
        assert made == {"id": there.id, "start": start, "size": there.size}
        bench.release(vf)
        assert bench.instances() == ()


@REBOOT_CASES.case("5.14", "8.5")
def a_vgpu_comes_back_with_its_instance_once_the_vfs_are_on(bench: MigBackedBench) -> None:
    start = bench.small_starts[-1]
    bench.set_mode(True)
    vf = bench.vfs(True)[0]
    bench.create(vf, bench.behind(start, make=True))
    bench.may_suffer.reboot()
    assert bench.instances() == ()
    assert bench.vfs(True)[0] == vf
    assert bench.call("vgpu_look", vf=vf)["type"] == 0
    assert bench.call("restore") == {"restored": [f"pci-{vf}"], "failed": []}
    assert [each.start for each in bench.instances()] == [start]
    assert bench.call("vgpu_look", vf=vf)["type"] == bench.small_type


@REBOOT_CASES.case()
def a_declared_instance_comes_back_before_the_vgpu_in_it(bench: MigBackedBench) -> None:
    bench.set_mode(True)
    start, small = bench.small_starts[0], bench.profile(bench.small)
    place = {"profile_id": small.profile_id, "start": start, "size": small.size, "compute": []}
    layout = bench.keep(bench.pf, mig=True, vfs=bench.total, instances=[place])
    vf = bench.vfs(True)[0]
    bench.make(bench.small, start)
    bench.create(vf, bench.behind(start, make=True))
    bench.may_suffer.reboot()
    assert bench.instances() == ()
    assert bench.call("restore") == {"restored": [layout, f"pci-{vf}"], "failed": []}
    assert bench.call("vgpu_look", vf=vf)["type"] == bench.small_type
    bench.release(vf)
    assert [each.start for each in bench.instances()] == [start]

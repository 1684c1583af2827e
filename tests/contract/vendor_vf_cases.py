"""VFs that carry vGPUs by themselves: the vendor-specific VFIO framework (§5)."""

from __future__ import annotations

import pytest

from tests.contract.bench import Cases, refused
from tests.contract.vendor_vf_bench import VendorVfBench
from tests.contract.vgpus import vf_file
from vgpumgr.model.domain import PciHostdev
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound

CASES = Cases[VendorVfBench]()
REBOOT_CASES = Cases[VendorVfBench]()


# -- the driver's files, by hand


@CASES.case("5.1")
def types_are_listed_one_to_a_line(bench: VendorVfBench) -> None:
    for vf in bench.vfs:
        assert {bench.type_id, bench.other_type, bench.full} <= set(bench.listed(vf))
        assert bench.read(vf, "current_vgpu_type") == "0\n"


@CASES.case("5.2")
def a_vf_with_a_vgpu_lists_nothing_and_the_others_what_still_fits(bench: VendorVfBench) -> None:
    one, two = bench.vfs[:2]
    with bench.typed(one):
        assert bench.listed(one) == []
        assert bench.type_id in bench.listed(two)
        assert not {bench.other_type, bench.full} & set(bench.listed(two))
    with bench.typed(one, bench.full):
        assert bench.listed(two) == []
    assert bench.full in bench.listed(two)


@CASES.case("5.3")
def a_type_is_written_and_0_destroys_it(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    bench.by_hand(vf, f"{bench.type_id}\n")
    assert bench.read(vf, "current_vgpu_type") == f"{bench.type_id}\n"
    bench.by_hand(vf, "0")
    assert bench.read(vf, "current_vgpu_type") == "0\n"


@CASES.case("5.4", "5.5")
def what_is_no_type_is_refused(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    for text in ("A40-8Q", "\n", "-1"):
        with refused("EINVAL"):
            bench.by_hand(vf, text)
    with refused("ERANGE"):
        bench.by_hand(vf, "9" * 12)
    with refused("EIO"):
        bench.by_hand(vf, "4294967295")


@CASES.case("5.6", "5.7", "6.5")
def a_vf_is_cleared_before_it_takes_another_type(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    with refused("EPERM"):
        bench.by_hand(vf, "0")
    with bench.typed(vf):
        for type_id in (bench.type_id, bench.other_type):
            with refused("EPERM"):
                bench.by_hand(vf, str(type_id))
        assert bench.look(vf)["type"] == bench.type_id


@CASES.case("5.8")
def a_type_that_does_not_fit_is_refused(bench: VendorVfBench) -> None:
    one, two = bench.vfs[:2]
    with bench.typed(one), refused("EIO"):
        bench.by_hand(two, str(bench.other_type))
    assert bench.look(two)["type"] == 0


@CASES.case("5.9")
def a_vgpu_that_a_vm_has_open_is_not_destroyed(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    bench.create(vf)
    with bench.running("holder", PciHostdev(address=vf)):
        assert bench.look(vf)["in_use"] is True
        with refused("EPERM"):
            bench.by_hand(vf, "0")
        with pytest.raises(InUse):
            bench.release(vf)
        assert bench.look(vf)["type"] == bench.type_id
        assert isinstance(bench.refused_start("second", PciHostdev(address=vf)), InUse)
    bench.release(vf)


@CASES.case("5.10")
def a_release_waits_for_the_plugin_of_the_vm(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    bench.create(vf)
    with bench.running("holder", PciHostdev(address=vf)):
        pass
    assert bench.release(vf) == {"type": 0}
    assert bench.look(vf)["type"] == 0


@CASES.case("5.11")
def a_vf_without_a_type_starts_no_vm(bench: VendorVfBench) -> None:
    refused_start = bench.refused_start("untyped", PciHostdev(address=bench.vfs[0]))
    assert isinstance(refused_start, HostRefused)
    assert "No such device" in refused_start.why


@CASES.case("3.11", "5.12")
def nothing_is_told_of_no_vgpu(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    for name in ("gpu_instance_id", "placement_id", "vgpu_params"):
        with refused("ENXIO"):
            bench.read(vf, name)
    for name, text in (("placement_id", "0"), ("vgpu_params", "frame_rate_limiter=0")):
        with refused("ENXIO"):
            bench.machine.write(vf_file(vf, name), text)
    seen = bench.look(vf)
    assert (seen["instance"], seen["placement_id"], seen["params"]) == (None, None, {})


@REBOOT_CASES.case("5.14")
def types_are_gone_after_a_boot_and_restored_once_the_vfs_are_on(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    bench.create(vf)
    bench.may_suffer.reboot()
    assert bench.look(vf)["exists"] is False
    failed = bench.call("restore")["failed"]
    assert isinstance(failed, list)
    assert [each["unit"] for each in failed] == [f"pci-{vf}"]
    bench.call("vfs_set", gpu=bench.pf, count=bench.facts(bench.pf).sriov_total)
    assert bench.look(vf)["type"] == 0
    assert bench.call("restore") == {"restored": [f"pci-{vf}"], "failed": []}
    assert bench.look(vf)["type"] == bench.type_id


@REBOOT_CASES.case()
def types_come_back_with_the_layout_they_live_in(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    layout = bench.keep(bench.pf, vfs=len(bench.facts(bench.pf).vfs))
    bench.create(vf)
    bench.may_suffer.reboot()
    for _ in range(2):
        assert bench.call("restore") == {"restored": [layout, f"pci-{vf}"], "failed": []}
        assert bench.look(vf)["type"] == bench.type_id


# -- the helper


@CASES.case()
def a_vgpu_is_made_seen_and_released(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    made = bench.create(vf)
    assert (made["state"], made["type"]) == ("in-state", bench.type_id)
    facts = bench.host.probe()
    function = next(each for each in bench.facts(bench.pf).vfs if each.address == vf)
    assert function.vendor is not None
    assert function.vendor.type_id == bench.type_id
    assert f"pci-{vf}" in [each.unit for each in facts.claims]
    assert bench.create(vf)["state"] == "in-state"
    assert bench.release(vf) == bench.release(vf) == {"type": 0}
    assert bench.look(vf)["claim"] is None


@CASES.case()
def a_vgpu_is_released_only_under_its_claim(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    bench.create(vf)
    with pytest.raises(Conflict):
        bench.release(vf, owner="two")
    with pytest.raises(Conflict):
        bench.create(vf, owner="two")
    assert bench.look(vf)["type"] == bench.type_id
    bench.release(vf)


@CASES.case("5.7")
def a_foreign_vgpu_is_seen_and_left_alone(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    with bench.typed(vf):
        seen = bench.look(vf)
        assert (seen["type"], seen["claim"]) == (bench.type_id, None)
        for type_id in (bench.type_id, bench.other_type):
            with pytest.raises(Conflict):
                bench.create(vf, type_id)
        with pytest.raises(Conflict):
            bench.release(vf)
        assert bench.look(vf)["type"] == bench.type_id


@CASES.case("5.2", "5.8")
def a_refusal_names_what_would_fit_and_leaves_no_claim(bench: VendorVfBench) -> None:
    one, two = bench.vfs[:2]
    bench.create(one)
    with pytest.raises(HostRefused) as caught:
        bench.create(two, bench.other_type, owner="two")
    assert str(bench.type_id) in caught.value.why
    assert bench.look(two)["claim"] is None
    bench.release(one)


@CASES.case()
def a_function_without_types_is_not_found(bench: VendorVfBench) -> None:
    for address in ("0000:ff:1f.7", bench.pf):
        with pytest.raises(NotFound):
            bench.create(address)
    assert bench.claims == ()


@CASES.case("4.16")
def vfs_with_vgpus_stay_on(bench: VendorVfBench) -> None:
    vf = bench.vfs[0]
    bench.create(vf)
    with pytest.raises(InUse) as caught:
        bench.call("vfs_set", gpu=bench.pf, count=0)
    assert vf in caught.value.why
    assert bench.look(vf)["type"] == bench.type_id
    bench.release(vf)

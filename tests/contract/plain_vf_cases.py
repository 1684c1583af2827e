"""VFs that a VM gets as they are (§16): AMD's gim, Intel's xe and i915, and any other PF."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.contract.bench import PCI, Bench, Cases, refused
from vgpumgr.model.domain import PciHostdev
from vgpumgr.model.errors import Conflict, HostRefused, InUse

VFIO = "vfio-pci"


@dataclass(frozen=True, kw_only=True)
class PlainVfBench(Bench):
    """``vfs`` are the VFs of ``pf``: at least two, on no driver, on for the whole case."""

    pf: str
    vfs: tuple[str, ...]

    def look(self, vf: str) -> dict[str, object]:
        return self.call("vfio_look", address=vf)

    def set_vfs(self, count: int) -> dict[str, object]:
        return self.call("vfs_set", gpu=self.pf, count=count)


CASES = Cases[PlainVfBench]()
# For PFs whose driver makes as many VFs as ``sriov_numvfs`` is told.
NUMVFS_CASES = Cases[PlainVfBench]()
NUMVFS_REBOOT_CASES = Cases[PlainVfBench]()
# For AMD's gim: the count is a module option, read when it loads.
GIM_CASES = Cases[PlainVfBench]()
GIM_REBOOT_CASES = Cases[PlainVfBench]()


@CASES.case("16.1")
def a_vf_waits_on_no_driver_in_a_group_of_its_own(bench: PlainVfBench) -> None:
    for vf in bench.vfs:
        seen = bench.look(vf)
        assert (seen["driver"], seen["in_use"], seen["claim"]) == (None, False, None)
        group = f"{PCI}/devices/{vf}/iommu_group/devices"
        assert bench.machine.exists(f"{group}/{vf}")
        assert not any(bench.machine.exists(f"{group}/{each}") for each in bench.vfs if each != vf)
    function = bench.facts(bench.pf).vfs[0]
    assert (function.vendor, function.mdev_types) == (None, ())
    assert function.reset_methods


@CASES.case("16.2")
def a_vf_is_bound_by_its_address_and_given_back(bench: PlainVfBench) -> None:
    one, *others = bench.vfs
    before = bench.facts(bench.pf).driver
    assert bench.bind(one) == {"driver": VFIO, "original_driver": None}
    assert bench.bind(one)["driver"] == VFIO
    assert {bench.look(each)["driver"] for each in others} == {None}
    assert bench.facts(bench.pf).driver == before
    assert bench.unbind(one) == {"driver": None}
    assert (bench.look(one)["driver_override"], bench.look(one)["claim"]) == (None, None)


@CASES.case()
def a_vf_is_given_back_only_under_its_claim(bench: PlainVfBench) -> None:
    vf = bench.vfs[0]
    bench.bind(vf)
    for doing in (bench.bind, bench.unbind):
        with pytest.raises(Conflict):
            doing(vf, owner="two")
    bench.unbind(vf)


@CASES.case("16.3")
def a_vf_that_a_vm_has_is_in_use_and_keeps_the_vfs_on(bench: PlainVfBench) -> None:
    one, two = bench.vfs[:2]
    bench.bind(one)
    bench.bind(two, owner="two")
    with bench.running("holder", PciHostdev(address=one)):
        assert (bench.look(one)["in_use"], bench.look(two)["in_use"]) == (True, False)
        with pytest.raises(InUse):
            bench.unbind(one)
        assert isinstance(bench.refused_start("second", PciHostdev(address=one)), InUse)
        with bench.running("neighbour", PciHostdev(address=two)):
            pass
    bench.unbind(one)
    bench.unbind(two, owner="two")


@CASES.case("16.3")
def a_vm_does_not_start_with_a_vf_on_no_vfio_driver(bench: PlainVfBench) -> None:
    refused_start = bench.refused_start("unbound", PciHostdev(address=bench.vfs[0]))
    assert isinstance(refused_start, HostRefused)


@CASES.case("16.4")
def a_vf_goes_to_the_next_guest_only_after_a_reset(bench: PlainVfBench) -> None:
    vf = bench.vfs[0]
    bench.bind(vf)
    with bench.running("first", PciHostdev(address=vf)):
        pass
    bench.unbind(vf)
    method = f"{PCI}/devices/{vf}/reset_method"
    bench.machine.write(method, "\n")
    with pytest.raises(HostRefused) as caught:
        bench.bind(vf, owner="two")
    assert caught.value.errno_name == "ENOTTY"
    bench.machine.write(method, "default")
    bench.bind(vf, owner="two")
    bench.unbind(vf, owner="two")


@CASES.case("4.15", "16.5")
def a_pf_is_not_given_whole_while_its_vfs_are_on(bench: PlainVfBench) -> None:
    with pytest.raises(HostRefused) as caught:
        bench.bind(bench.pf, *bench.mates(bench.pf))
    assert caught.value.errno_name == "EBUSY"
    assert bench.look(bench.pf)["claim"] is None


@NUMVFS_CASES.case("4.16")
def vfs_that_are_claimed_stay_on(bench: PlainVfBench) -> None:
    vf = bench.vfs[-1]
    bench.bind(vf)
    with bench.running("holder", PciHostdev(address=vf)), pytest.raises(InUse) as caught:
        bench.set_vfs(0)
    assert vf in caught.value.why
    with pytest.raises(InUse) as caught:
        bench.set_vfs(len(bench.vfs) - 1)
    assert f"pci-{vf}" in caught.value.why
    assert [each.address for each in bench.facts(bench.pf).vfs] == list(bench.vfs)
    bench.unbind(vf)


@NUMVFS_REBOOT_CASES.case("4.11")
def a_vf_comes_back_once_the_vfs_are_on(bench: PlainVfBench) -> None:
    vf = bench.vfs[0]
    bench.bind(vf)
    bench.may_suffer.reboot()
    assert bench.look(vf)["exists"] is False
    failed = bench.call("restore")["failed"]
    assert isinstance(failed, list)
    assert [each["unit"] for each in failed] == [f"pci-{vf}"]
    bench.set_vfs(len(bench.vfs))
    assert bench.call("restore") == {"restored": [f"pci-{vf}"], "failed": []}
    assert bench.look(vf)["driver"] == VFIO


@NUMVFS_REBOOT_CASES.case()
def a_vf_comes_back_with_the_layout_it_lives_in(bench: PlainVfBench) -> None:
    vf = bench.vfs[0]
    layout = bench.keep(bench.pf, vfs=len(bench.vfs))
    bench.bind(vf)
    bench.may_suffer.reboot()
    assert bench.call("restore") == {"restored": [layout, f"pci-{vf}"], "failed": []}
    assert bench.look(vf)["driver"] == VFIO
    assert [each.address for each in bench.facts(bench.pf).vfs] == list(bench.vfs)


@GIM_REBOOT_CASES.case()
def gims_vfs_are_as_a_layout_says_without_a_change(bench: PlainVfBench) -> None:
    layout = bench.keep(bench.pf, vfs=len(bench.vfs))
    bench.may_suffer.reboot()
    assert bench.call("restore") == {"restored": [layout], "failed": []}
    bench.keep(bench.pf, vfs=len(bench.vfs) - 1)
    assert "vf_num=" in str(bench.call("restore")["failed"])


@GIM_CASES.case("16.6", "4.4")
def gim_takes_no_count(bench: PlainVfBench) -> None:
    for text in ("0", "1"):
        with refused("ENOENT"):
            bench.machine.write(f"{PCI}/devices/{bench.pf}/sriov_numvfs", text)
    with pytest.raises(HostRefused) as caught:
        bench.set_vfs(1)
    assert "vf_num=1" in caught.value.why
    assert bench.set_vfs(len(bench.vfs))["vfs"] == list(bench.vfs)


@GIM_REBOOT_CASES.case("16.7")
def gims_vfs_are_there_after_a_boot(bench: PlainVfBench) -> None:
    vf = bench.vfs[0]
    bench.bind(vf)
    bench.may_suffer.reboot()
    assert [each.address for each in bench.facts(bench.pf).vfs] == list(bench.vfs)
    assert bench.look(vf)["driver"] is None
    assert bench.call("restore") == {"restored": [f"pci-{vf}"], "failed": []}
    assert bench.look(vf)["driver"] == VFIO

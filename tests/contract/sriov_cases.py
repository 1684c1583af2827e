"""A PF and its VFs (§4): the kernel's files, NVIDIA's script, and the helper over both."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.contract.bench import PCI, Bench, Cases, refused
from vgpumgr.model.errors import HostRefused, InUse
from vgpumgr.model.formats import PciAddress

SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"


@dataclass(frozen=True, kw_only=True)
class SriovBench(Bench):
    """``pf`` has no VF on; ``total`` is its ``sriov_totalvfs``, ``count`` a number it takes."""

    pf: str
    total: int
    count: int

    def file(self, name: str, function: str = "") -> str:
        return f"{PCI}/devices/{function or self.pf}/{name}"

    def number(self, name: str) -> int:
        return int(self.machine.read(self.file(name)))

    def set(self, count: int) -> list[str]:
        """Have the helper turn VFs on or off; their addresses."""
        answer = self.call("vfs_set", gpu=self.pf, count=count)
        assert answer["count"] == count == self.number("sriov_numvfs")
        vfs = answer["vfs"]
        assert isinstance(vfs, list)
        return vfs

    def by_hand(self, text: str) -> None:
        self.machine.write(self.file("sriov_numvfs"), text)


CASES = Cases[SriovBench]()
# For PFs whose driver makes as many VFs as ``sriov_numvfs`` is told.
NUMVFS_CASES = Cases[SriovBench]()
# For NVIDIA's PFs: sriov-manage turns on all VFs or none.
NVIDIA_CASES = Cases[SriovBench]()
NVIDIA_FAULT_CASES = Cases[SriovBench]()
REBOOT_CASES = Cases[SriovBench]()


# -- the kernel, by hand


@CASES.case("4.1")
def vfs_lie_where_offset_and_stride_say(bench: SriovBench) -> None:
    vfs = bench.set(bench.count)
    first = _routing_id(bench.pf) + bench.number("sriov_offset")
    wanted = [first + number * bench.number("sriov_stride") for number in range(bench.count)]
    assert [_routing_id(vf) for vf in vfs] == wanted
    for number, vf in enumerate(vfs):
        assert bench.machine.target(bench.file(f"virtfn{number}")) == vf
        assert bench.machine.target(bench.file("physfn", vf)) == bench.pf
    device = bench.machine.read(bench.file("sriov_vf_device"))
    assert int(bench.machine.read(bench.file("device", vfs[0])), 16) == int(device, 16)
    bench.set(0)
    assert not bench.machine.exists(bench.file("virtfn0"))


@CASES.case("4.1")
def every_vf_has_an_iommu_group_of_its_own(bench: SriovBench) -> None:
    bench.set(bench.count)
    vfs = bench.facts(bench.pf).vfs
    assert len({each.iommu_group for each in vfs} | {None}) == bench.count + 1
    bench.set(0)


@CASES.case("4.2", "4.3")
def what_is_no_count_is_refused(bench: SriovBench) -> None:
    for text, name in (("all", "EINVAL"), ("-1", "EINVAL"), (f"{bench.total + 1}", "ERANGE")):
        with refused(name):
            bench.by_hand(text)
    with pytest.raises(HostRefused) as caught:
        bench.set(bench.total + 1)
    assert caught.value.errno_name == "ERANGE"


@CASES.case("4.6")
def the_count_that_is_there_is_taken(bench: SriovBench) -> None:
    bench.by_hand("0")
    bench.set(bench.count)
    bench.by_hand(str(bench.count))
    assert bench.number("sriov_numvfs") == bench.count
    bench.set(0)


@NUMVFS_CASES.case("4.4")
def a_pf_without_a_driver_makes_no_vfs(bench: SriovBench) -> None:
    driver = bench.facts(bench.pf).driver
    bench.machine.write(f"{PCI}/drivers/{driver}/unbind", bench.pf)
    with refused("ENOENT"):
        bench.by_hand("1")
    with pytest.raises(HostRefused) as caught:
        bench.set(bench.count)
    assert caught.value.errno_name == "ENOENT"
    bench.machine.write(f"{PCI}/drivers/{driver}/bind", bench.pf)


@NUMVFS_CASES.case("4.5")
def a_count_changes_through_0_only(bench: SriovBench) -> None:
    bench.set(bench.count)
    with refused("EBUSY"):
        bench.by_hand(str(bench.count - 1))
    assert len(bench.set(bench.count - 1)) == bench.count - 1
    bench.set(0)


@NVIDIA_CASES.case("4.7")
def nvidias_driver_takes_no_count(bench: SriovBench) -> None:
    with refused("ENOENT"):
        bench.by_hand("1")
    vfs = bench.set(bench.total)
    with refused("ENOENT"):
        bench.by_hand("0")
    assert [each.address for each in bench.facts(bench.pf).vfs] == vfs
    with pytest.raises(HostRefused) as caught:
        bench.set(1)
    assert f"all {bench.total} or none" in caught.value.why
    bench.set(0)


@NVIDIA_CASES.case("4.8")
def turning_vfs_on_again_changes_nothing(bench: SriovBench) -> None:
    vfs = bench.set(bench.total)
    file = bench.file("nvidia/current_vgpu_type", vfs[0])
    listed = bench.machine.read(bench.file("nvidia/creatable_vgpu_types", vfs[0]))
    bench.machine.write(file, listed.split("\n")[1].split()[0])
    before = bench.facts(bench.pf)
    assert bench.machine.run(SRIOV_MANAGE, "-e", bench.pf)[0] == 0
    assert bench.facts(bench.pf) == before
    assert bench.set(bench.total) == vfs
    bench.machine.write(file, "0")
    bench.set(0)


@NVIDIA_FAULT_CASES.case("4.9")
def a_passing_client_does_not_stop_sriov_manage(bench: SriovBench) -> None:
    bench.may_suffer.unbind_fails(bench.pf, 1)
    said = bench.machine.run(SRIOV_MANAGE, "-e", bench.pf)[1]
    assert "Cannot obtain unbindLock" in said
    assert bench.number("sriov_numvfs") == 0
    bench.may_suffer.unbind_fails(bench.pf, 2)
    assert len(bench.set(bench.total)) == bench.total
    bench.set(0)


@NVIDIA_FAULT_CASES.case("4.10")
def a_client_that_stays_is_named(bench: SriovBench) -> None:
    with bench.may_suffer.client(bench.pf, "nvidia-persiste"):
        with pytest.raises(InUse) as caught:
            bench.set(bench.total)
        assert "nvidia-persiste" in caught.value.why
        assert "unbindLock" in bench.machine.run(SRIOV_MANAGE, "-e", bench.pf)[1]
    assert bench.number("sriov_numvfs") == 0


@NVIDIA_FAULT_CASES.case("4.10")
def an_unbind_lock_that_never_comes_is_told(bench: SriovBench) -> None:
    bench.may_suffer.unbind_fails(bench.pf, 5)
    with pytest.raises(HostRefused) as caught:
        bench.set(bench.total)
    assert "unbindLock" in caught.value.why
    assert bench.set(bench.total)
    bench.set(0)


@REBOOT_CASES.case("4.11")
def vfs_are_gone_after_a_boot(bench: SriovBench) -> None:
    bench.set(bench.count)
    bench.may_suffer.reboot()
    assert (bench.number("sriov_numvfs"), bench.facts(bench.pf).vfs) == (0, ())
    assert len(bench.set(bench.count)) == bench.count


@REBOOT_CASES.case()
def vfs_of_a_layout_come_back_with_the_boot(bench: SriovBench) -> None:
    layout = bench.keep(bench.pf, vfs=bench.count)
    vfs = bench.set(bench.count)
    bench.may_suffer.reboot()
    for _ in range(2):
        assert bench.call("restore") == {"restored": [layout], "failed": []}
        assert [each.address for each in bench.facts(bench.pf).vfs] == vfs


@CASES.case("4.15")
def vfio_takes_no_pf_whose_vfs_are_on(bench: SriovBench) -> None:
    bench.set(bench.count)
    driver = bench.facts(bench.pf).driver
    with pytest.raises(HostRefused) as caught:
        bench.bind(bench.pf, *bench.mates(bench.pf))
    assert caught.value.errno_name == "EBUSY"
    assert bench.facts(bench.pf).driver == driver
    bench.set(0)


@NVIDIA_CASES.case("4.15")
def vfio_itself_refuses_a_pf_whose_vfs_are_on(bench: SriovBench) -> None:
    bench.set(bench.total)
    bench.machine.run("modprobe", "vfio-pci")
    bench.machine.write(bench.file("driver_override"), "vfio-pci")
    bench.machine.write(f"{PCI}/drivers/nvidia/unbind", bench.pf)
    with refused("EBUSY"):
        bench.machine.write(f"{PCI}/drivers/vfio-pci/bind", bench.pf)
    bench.machine.write(bench.file("driver_override"), "\n")
    bench.machine.write(f"{PCI}/drivers/nvidia/bind", bench.pf)
    bench.set(0)


@CASES.case("6.10")
def a_pf_that_is_given_whole_makes_no_vfs(bench: SriovBench) -> None:
    bench.bind(bench.pf, *bench.mates(bench.pf))
    with pytest.raises(HostRefused) as caught:
        bench.set(bench.count)
    assert caught.value.errno_name == "ENOENT"
    bench.unbind(bench.pf)


def _routing_id(address: str) -> int:
    pci = PciAddress.parse(address)
    return pci.bus << 8 | pci.slot << 3 | pci.function

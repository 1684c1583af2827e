"""The kernel's mdev core by hand (§2): parents and devices of any vendor."""

from __future__ import annotations

import pytest

from tests.contract.bench import Cases, new_uuid, refused
from tests.contract.mdev_bench import DEVICES, PARENTS, MdevBench, create_file, remove_file
from vgpumgr.model.errors import HostRefused

CASES = Cases[MdevBench]()


@CASES.case("2.1")
def a_uuid_of_another_length_is_refused(bench: MdevBench) -> None:
    device = new_uuid()
    for text in (device[:-1], f"{device}00", f"{device}\n\n", "\n"):
        with refused("EINVAL"):
            bench.by_hand(text)
    bench.by_hand(f"{device}\n")
    bench.drop(device)


@CASES.case("2.2")
def a_malformed_uuid_is_refused(bench: MdevBench) -> None:
    for text in ("g" * 36, new_uuid().replace("-", "0")):
        with refused("EINVAL"):
            bench.by_hand(text)
    with pytest.raises(HostRefused):
        bench.create("not-a-uuid")


@CASES.case("2.3")
def a_uuid_exists_once_on_the_whole_host(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    for where in ((bench.parent, bench.other_type), bench.elsewhere):
        with refused("EEXIST"):
            bench.machine.write(create_file(*where), device)
    bench.drop(device)


@CASES.case("2.4")
def the_drivers_own_errno_comes_through_when_nothing_is_left(bench: MdevBench) -> None:
    devices = [new_uuid() for _ in range(bench.available(bench.type_id))]
    for device in devices:
        bench.by_hand(device)
    with refused(bench.full):
        bench.by_hand(new_uuid())
    for device in devices:
        bench.drop(device)


@CASES.case("2.5", "2.6")
def an_mdev_is_removed_by_a_number_other_than_0(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    with refused("EINVAL"):
        bench.machine.write(remove_file(device), "yes")
    bench.machine.write(remove_file(device), "0")
    assert bench.look(device)["exists"] is True
    bench.drop(device)
    assert bench.look(device)["exists"] is False


@CASES.case("2.7")
def the_kernel_writes_a_uuid_in_small_letters(bench: MdevBench) -> None:
    device = "ABCDEF01-2345-4678-9ABC-DEF012345678"
    bench.by_hand(device)
    assert bench.machine.exists(f"{DEVICES}/{device.lower()}")
    assert not bench.machine.exists(f"{DEVICES}/{device}")
    bench.drop(device.lower())


@CASES.case("2.8")
def each_mdev_has_an_iommu_group_of_its_own(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    group = f"{DEVICES}/{device}/iommu_group"
    name = bench.machine.target(group)
    assert name.isdigit()
    assert bench.machine.exists(f"/dev/vfio/{name}")
    assert bench.machine.exists(f"{group}/devices/{device}")
    assert bench.machine.target(f"{PARENTS}/{bench.parent}/iommu_group") != name
    bench.drop(device)

"""GPUs outside the catalogue: only what their VFs' files tell is offered, and it is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gpu.values import plain_vfs
from vgpumgr import gpu as frameworks
from vgpumgr.model.gpu import Framework, GpuFacts, MdevType, MigFacts, VendorVgpu, VfFacts
from vgpumgr.model.supply import Offer

NAMES = {
    "801": "LAB V16-1Q", "802": "LAB V16-2Q", "805": "LAB V16-16Q", "806": "NVIDIA V16-2B4",
    "900": "LAB V16 whole",
}  # fmt: skip
EMPTY = VendorVgpu(creatable=tuple(map(int, NAMES)), type_id=0)


def gpu(*vendors: VendorVgpu | None, **changes: object) -> GpuFacts:
    vfs = tuple(
        VfFacts(number=n, address=f"0000:05:10.{n}", vendor=vendor)
        for n, vendor in enumerate(vendors)
    )
    facts = GpuFacts(
        device="0000:05:00.0", path="/sys/x", model="8086:10c9", vfs=vfs, sriov_total=7
    )
    told = NAMES if any(each and each.creatable for each in vendors) else {}
    return replace(facts, vf_types=told, **changes)  # type: ignore[arg-type]


def learned(facts: GpuFacts, before: GpuFacts | None = None) -> GpuFacts:
    return frameworks.with_budget(facts, before, empty=True)


def offered(facts: GpuFacts) -> dict[str, Offer]:
    found = {each.profile: each for each in frameworks.offers(facts)}
    del found["passthrough"]
    return found


def test_the_number_in_a_types_name_is_its_size_and_the_largest_is_the_gpu() -> None:
    facts = learned(gpu(EMPTY, EMPTY))
    assert facts.type_units == {"801": 1, "802": 2, "805": 16, "806": 2}
    assert frameworks.slots(facts, empty=True) == 16
    found = offered(facts)
    assert set(found) == {"LAB V16-1Q", "LAB V16-2Q", "LAB V16-16Q", "V16-2B4"}
    two = found["LAB V16-2Q"]
    assert (two.framework, two.type_id, two.series) == (Framework.VFIO_VF, "802", "Q")
    assert (two.units, two.max_instances, two.memory_mib, two.size_class) == (2, 8, 2048, 2048)
    assert (two.needs_vf, two.verified) == (True, False)
    assert found["V16-2B4"].size_class == two.size_class


def test_sizes_mix_where_the_driver_says_so() -> None:
    assert offered(learned(gpu(EMPTY, mixed_size=True)))["LAB V16-2Q"].size_class == 0


@pytest.mark.parametrize(
    "vendor",
    [
        VendorVgpu(creatable=(), type_id=802),
        VendorVgpu(creatable=None, type_id=0),
        VendorVgpu(creatable=(801,), type_id=None),
    ],
    ids=["something lives", "list unread", "type unread"],
)
def test_only_an_empty_gpu_teaches_and_what_it_taught_stays(vendor: VendorVgpu) -> None:
    fewer = replace(gpu(EMPTY, vendor), vf_types={"802": NAMES["802"]})
    assert learned(fewer).type_units == {}
    assert offered(learned(fewer)) == {}
    after = learned(fewer, learned(gpu(EMPTY, EMPTY)))
    assert set(after.vf_types) == set(NAMES)
    assert frameworks.slots(after, empty=False) == 16
    assert "LAB V16-16Q" in offered(after)


def test_in_mig_mode_nothing_is_learned_or_offered() -> None:
    facts = learned(gpu(EMPTY, mig=MigFacts(enabled=True, pending=True)))
    assert (facts.type_units, offered(facts)) == ({}, {})


def test_a_layout_could_turn_the_vfs_on_again() -> None:
    before = learned(gpu(EMPTY, EMPTY))
    off = learned(gpu(), before)
    assert offered(off) == {}
    assert frameworks.potential(off)["LAB V16-2Q"] == "vfs: max"
    assert frameworks.potential(before) == {}
    assert frameworks.slots(off, empty=True) == 16


def test_plain_vfs_go_by_the_pci_id() -> None:
    facts = learned(replace(gpu(), vfs=plain_vfs(4)))
    one = offered(facts)["8086:10c9-1of4"]
    assert (one.framework, one.units, one.max_instances) == (Framework.PCI_VF, 1, 4)
    assert (one.memory_mib, one.verified, one.needs_vf) == (0, False, True)
    assert frameworks.slots(facts, empty=True) == 4


def test_files_tell_what_a_vf_is() -> None:
    parents = replace(plain_vfs(1)[0], mdev_types=(MdevType(type_id="x-1", name="x", available=1),))
    assert not parents.is_plain
    assert offered(learned(replace(gpu(), vfs=(parents,)))) == {}
    mixture = replace(gpu(EMPTY), vfs=(*gpu(EMPTY).vfs, *plain_vfs(1)))
    assert "8086:10c9-1of2" not in offered(learned(mixture))


def test_users_may_write_what_a_host_told() -> None:
    told = frameworks.learned_profiles
    assert told(replace(gpu(), vfs=plain_vfs(2))) == {"8086:10c9-1of2"}
    assert "LAB V16-2Q" in told(learned(gpu(EMPTY)))
    assert told(GpuFacts(device="mtty", path="/x", model="mtty")) == frozenset()

"""What every kind of GPU offers as it is partitioned, and what a Layout would make possible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gpu.values import board, gpu, mdev_vfs, mi300x, vendor_vfs
from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.model.gpu import GpuFacts, MigFacts, MigProfile, VendorVgpu
from vgpumgr.model.supply import Offer, SlotStart

MIG_ON = MigFacts(enabled=True, pending=True)
SRIOV = [each for each in catalog.boards() if each.host_mode == "sriov-vf"]


def offered(facts: GpuFacts) -> dict[str, Offer]:
    found = frameworks.offers(facts)
    names = [each.profile for each in found]
    assert len(names) == len(set(names)), "a profile is offered once"
    return {each.profile: each for each in found}


@pytest.mark.parametrize("vfs", [vendor_vfs, mdev_vfs], ids=["vfio-vf", "mdev"])
def test_vfs_make_time_sliced_types_of_the_catalogue(vfs) -> None:
    found = offered(gpu("L40S", vfs=vfs("L40S")))
    time_sliced = {each.profile for each in board("L40S").types if not each.mig}
    assert set(found) == time_sliced | {"passthrough"}
    one = found["L40S-8Q"]
    assert (one.units, one.max_instances, one.memory_mib, one.size_class) == (8, 6, 8192, 8192)
    assert (one.starts, one.instance, one.needs_vf, one.series) == ((), None, True, "Q")
    assert one.type_id in {"1152", "nvidia-1152"}
    assert one.max_per_vm == 16


def test_type_ids_are_numbers_on_vendor_vfs_and_names_on_mdev_parents() -> None:
    assert offered(gpu("L40S", vfs=vendor_vfs("L40S")))["L40S-8Q"].type_id == "1152"
    assert offered(gpu("L40S", vfs=mdev_vfs("L40S")))["L40S-8Q"].type_id == "nvidia-1152"


def test_without_vfs_only_the_whole_gpu_is_offered() -> None:
    assert set(offered(gpu("L40S"))) == {"passthrough"}
    assert set(offered(gpu("A100-PCIE-80GB", mig=MIG_ON))) == {"passthrough"}


def test_a_type_the_driver_does_not_know_is_not_offered() -> None:
    found = offered(gpu("L40S", vfs=vendor_vfs("L40S", creatable=(1147, 1152))))
    assert set(found) == {"L40S-1Q", "L40S-8Q", "passthrough"}


@pytest.mark.parametrize(
    "vendor",
    [
        VendorVgpu(creatable=(1152,), type_id=1152),
        VendorVgpu(creatable=None, type_id=0),
        VendorVgpu(creatable=(), type_id=None),
    ],
    ids=["something lives", "list unread", "type unread"],
)
def test_a_list_that_is_not_complete_hides_nothing(vendor: VendorVgpu) -> None:
    one, two = vendor_vfs("L40S", creatable=(1152,))
    found = offered(gpu("L40S", vfs=(replace(one, vendor=vendor), two)))
    assert "L40S-4Q" in found


@pytest.mark.parametrize("key", [each.key for each in SRIOV])
@pytest.mark.parametrize("mixed", [False, True])
def test_every_board_holds_what_it_offers(key: str, mixed: bool) -> None:
    facts = gpu(key, vfs=vendor_vfs(key))
    if facts.mixed_size is None:
        return
    facts = replace(facts, mixed_size=mixed)
    slots = frameworks.slots(facts, empty=True)
    for offer in frameworks.offers(facts):
        if offer.needs_vf:
            assert bool(offer.starts) == mixed
            assert bool(offer.size_class) != mixed
            assert 1 <= offer.units * (1 if mixed else offer.max_instances) <= slots
            assert all(0 <= slot < slots for start in offer.starts for slot in start.slots)
            assert all(len(start.slots) >= offer.units for start in offer.starts)


def test_a_mixed_size_gpu_places_by_the_drivers_ids() -> None:
    one = offered(gpu("A100-PCIE-80GB", vfs=vendor_vfs("A100-PCIE-80GB"), mixed_size=True))
    found = one["A100D-16C"]
    assert found.starts == tuple(
        SlotStart(at=at, slots=tuple(range(at, at + 16))) for at in (0, 24, 40, 64)
    )
    assert (found.units, found.max_instances, found.size_class) == (16, 4, 0)


def test_mig_profiles_are_named_so_and_answer_to_their_type() -> None:
    found = offered(gpu("A100-PCIE-80GB", vfs=vendor_vfs("A100-PCIE-80GB"), mig=MIG_ON))
    assert set(found) == {
        "1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb",
        "passthrough",
    }  # fmt: skip
    one = found["1g.10gb"]
    assert (one.names, one.type_id, one.units) == (("A100D-1-10C",), "699", 10)
    assert one.starts[2] == SlotStart(at=2, slots=tuple(range(20, 30)))
    assert [start.at for start in one.starts] == list(range(7))
    assert one.instance is not None
    assert (one.instance.profile_id, one.instance.size, one.instance.per_instance) == (19, 1, 1)
    assert (one.size_class, one.needs_vf, one.instance.media) == (0, True, False)
    media = found["1g.10gb+me"].instance
    assert media is not None
    assert media.media
    assert [start.at for start in found["3g.40gb"].starts] == [0, 4]


def test_the_drivers_places_win_over_the_catalogues() -> None:
    told = MigProfile(name="1g.10gb", profile_id=19, gpu_slices=1, size=1, starts=(4, 5))
    mig = replace(MIG_ON, profiles=(told,))
    found = offered(gpu("A100-PCIE-80GB", vfs=vendor_vfs("A100-PCIE-80GB"), mig=mig))
    assert set(found) == {"1g.10gb", "passthrough"}
    assert [start.at for start in found["1g.10gb"].starts] == [4, 5]


def test_rtx_pro_time_slices_inside_graphics_instances() -> None:
    key = "RTX-PRO-6000-BSE"
    found = offered(gpu(key, vfs=vendor_vfs(key), mig=MIG_ON))
    assert not [name for name in found if name in {"1g.24gb", "DC-2Q", "1g.24gb+me"}]
    small = found["RTX Pro 6000 Blackwell DC-1-2Q"]
    assert small.instance is not None
    assert (small.instance.profile, small.instance.per_instance) == ("1g.24gb+gfx", 12)
    assert (small.units, small.size_class, small.names) == (2, 2048, ())
    assert [(start.at, len(start.slots)) for start in small.starts] == [
        (0, 24), (3, 24), (6, 24), (9, 24),
    ]  # fmt: skip
    assert found["RTX Pro 6000 Blackwell DC-1-24Q"].names == ("1g.24gb+gfx",)
    assert found["RTX Pro 6000 Blackwell DC-4-96Q"].names == ("4g.96gb+gfx",)


def test_a_mig_mode_that_could_not_be_read_offers_no_vgpu() -> None:
    facts = gpu("A100-PCIE-80GB", vfs=vendor_vfs("A100-PCIE-80GB"), mig=None)
    assert set(offered(facts)) == {"passthrough"}


def test_a_plain_vf_is_an_nth_of_its_gpu() -> None:
    found = offered(mi300x(8))["MI300X-1of8"]
    assert (found.units, found.max_instances, found.needs_vf) == (1, 8, True)
    assert 20_000 < found.memory_mib <= 192 * 1024 // 8
    assert frameworks.slots(mi300x(8), empty=True) == 8
    assert frameworks.slots(mi300x(0), empty=True) == 1
    assert set(offered(mi300x(0))) == {"passthrough"}
    assert offered(mi300x(0))["passthrough"].memory_mib == 192 * 1024


def test_sizes_are_known_for_types_on_vfs() -> None:
    facts = frameworks.with_budget(gpu("L40S", vfs=mdev_vfs("L40S")), None, empty=False)
    assert facts.type_units["nvidia-1152"] == 8
    assert frameworks.slots(facts, empty=False) == 48


# -- what a Layout would make possible ----------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "profile", "lines"),
    [
        (gpu("L40S"), "L40S-8Q", "vfs: max"),
        (gpu("L40S", vfs=vendor_vfs("L40S")), "L40S-8Q", "mixed_size: true"),
        (gpu("L40S", vfs=vendor_vfs("L40S"), mixed_size=True), "L40S-8Q", None),
        (gpu("A100-PCIE-80GB"), "1g.10gb", "mig: true, vfs: max"),
        (gpu("A100-PCIE-80GB"), "A100D-1-10C", "mig: true, vfs: max"),
        (gpu("A100-PCIE-80GB", mig=MIG_ON), "A100D-10C", "mig: false, vfs: max"),
        (gpu("A100-PCIE-80GB", mig=MIG_ON, vfs=vendor_vfs("A100-PCIE-80GB")), "1g.10gb", None),
        (gpu("RTX-PRO-6000-BSE"), "1g.24gb+gfx", "mig: true, vfs: max"),
        (gpu("RTX-PRO-6000-BSE"), "1g.24gb", None),
        (gpu("A100-PCIE-80GB", mig=None), "1g.10gb", None),
        (gpu("L40S", driver="vfio-pci"), "L40S-8Q", None),
        (gpu("T4"), "T4-4Q", None),
        (mi300x(1), "MI300X-1of1", None),
        (
            mi300x(1),
            "MI300X-1of8",
            "vfs: 8, after `options gim vf_num=8` for the host's module",
        ),
    ],
)
def test_a_refusal_can_print_the_lines_to_add(
    facts: GpuFacts, profile: str, lines: str | None
) -> None:
    assert frameworks.potential(facts).get(profile) == lines


def test_intel_counts_are_a_layouts_to_set() -> None:
    facts = replace(mi300x(0), model="FLEX-170", vendor_device="8086:56c0", sriov_total=31)
    assert frameworks.potential(facts)["FLEX-170-1of16"] == "vfs: 16"
    assert "FLEX-170-1of32" not in frameworks.potential(facts)


@pytest.mark.parametrize("key", [each.key for each in SRIOV])
def test_every_profile_a_layout_makes_possible_exists(key: str) -> None:
    assert frameworks.potential(gpu(key)).keys() <= catalog.profiles()

"""Frameworks: what a GPU can make, which helper verbs make it, and whose the result is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import FakeHost, mbochs, t4, t4_parent
from vgpumgr import catalog, gpu
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import MdevHostdev, PciHostdev
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts, MdevType
from vgpumgr.model.operation import Differs, InState

UUID = "11111111-1111-1111-1111-111111111111"
GPU = "0000:41:00.0"
VGPU = Allocation(
    id="alloc-1",
    vm_id="vm-1",
    vm="web",
    host="h1",
    gpu="gpu-1",
    profile="T4-4Q",
    framework="mdev",
    device=UUID,
    slots=(0, 1, 2, 3),
    type_id="nvidia-232",
    parent=GPU,
)
WHOLE = replace(VGPU, profile="passthrough", framework="passthrough", device=GPU, parent="")


def types(**available: int | None) -> tuple[MdevType, ...]:
    return tuple(
        MdevType(type_id=name.replace("_", "-"), name=name, available=count)
        for name, count in available.items()
    )


def parent(**available: int | None) -> GpuFacts:
    return GpuFacts(device="sample", path="/x", model="sample", mdev_types=types(**available))


def t4_facts() -> GpuFacts:
    host = FakeHost(gpus=[t4()], parents=[t4_parent()])
    return gpu.with_budget(host.probe().gpus[0], None, empty=True)


# -- budgets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "sizes", "slots"),
    [
        (
            {"mbochs_1": 64, "mbochs_2": 16, "mbochs_3": 4},
            {"mbochs-1": 1, "mbochs-2": 4, "mbochs-3": 16},
            64,
        ),
        ({"mtty_1": 24, "mtty_2": 12}, {"mtty-1": 1, "mtty-2": 2}, 24),
        (
            {"V5_1": 1, "V5_2": 2, "V5_4": 3, "V5_8": 7},
            {"V5-1": 7, "V5-2": 3, "V5-4": 2, "V5-8": 1},
            7,
        ),
    ],
)
def test_sizes_are_learned_from_the_empty_parent(
    free: dict[str, int], sizes: dict[str, int], slots: int
) -> None:
    facts = parent(**free)
    assert gpu.with_budget(facts, None, empty=True).type_units == sizes
    assert gpu.slots(facts, empty=True) == slots


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10_000), max_size=6))
def test_what_the_empty_driver_offers_always_fits_the_learned_budget(free: dict[str, int]) -> None:
    """As many of one type as the driver counted are placed, and none takes nothing."""
    facts = parent(**free)
    sizes = gpu.with_budget(facts, None, empty=True).type_units
    assert set(sizes) == {name for name, count in free.items() if count}
    for name, units in sizes.items():
        assert units >= 1
        assert units * free[name] <= gpu.slots(facts, empty=True)


def test_a_count_that_could_not_be_read_teaches_nothing() -> None:
    facts = gpu.with_budget(parent(a=None, b=4), None, empty=True)
    assert facts.type_units == {"b": 1}


def test_nothing_is_learned_from_a_parent_in_use() -> None:
    facts = parent(a=3)
    assert gpu.with_budget(facts, None, empty=False).type_units == {}
    assert gpu.slots(facts, empty=False) == 1


def test_what_was_learned_once_wins_over_what_an_emptied_parent_shows() -> None:
    before = replace(parent(a=5), type_units={"a": 5})
    assert gpu.with_budget(parent(a=3), before, empty=True).type_units == {"a": 5}


def test_a_board_of_the_catalogue_is_never_guessed_at() -> None:
    facts = t4_facts()
    assert facts.type_units == {
        "nvidia-230": 1,
        "nvidia-231": 2,
        "nvidia-232": 4,
        "nvidia-233": 8,
    }
    assert gpu.slots(facts, empty=False) == 16


@pytest.mark.parametrize("board", catalog.boards(), ids=lambda board: str(board.key))
def test_every_board_holds_as_many_of_each_type_as_the_catalogue_says(
    board: catalog.Board,
) -> None:
    for each in board.types:
        units = catalog.allocation_units(board, each)
        assert units >= 1
        assert units * each.max_gpu <= catalog.slots(board)


# -- offers ------------------------------------------------------------------------------------


def test_a_t4_offers_its_types_by_name_with_the_catalogues_numbers() -> None:
    offers = {offer.profile: offer for offer in gpu.offers(t4_facts())}
    assert set(offers) == {"T4-1Q", "T4-2Q", "T4-4Q", "T4-8Q", "passthrough"}
    found = offers["T4-4Q"]
    assert (found.type_id, found.units, found.max_instances) == ("nvidia-232", 4, 4)
    assert found.memory_mib == found.size_class == 4096
    assert offers["passthrough"].memory_mib == 15360


def test_a_sample_parent_offers_type_ids_and_no_passthrough() -> None:
    facts, made = mbochs()
    seen = FakeHost(gpus=[facts], parents=[made]).probe().gpus[0]
    offers = gpu.offers(gpu.with_budget(seen, None, empty=True))
    assert [(offer.profile, offer.units, offer.size_class) for offer in offers] == [
        ("mbochs-1", 1, 0),
        ("mbochs-2", 4, 0),
        ("mbochs-3", 16, 0),
    ]


def test_a_type_of_unknown_size_is_not_offered() -> None:
    assert gpu.offers(gpu.with_budget(parent(a=3), None, empty=False)) == ()


def test_the_rest_of_the_group_is_siblings_or_strangers() -> None:
    facts = t4(0, group_devices=(GPU, "0000:41:00.1", "0000:42:00.0"))
    assert gpu.companions(facts) == (("0000:41:00.1",), ("0000:42:00.0",))


# -- life cycle --------------------------------------------------------------------------------


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.mark.parametrize("allocation", [VGPU, WHOLE], ids=["mdev", "passthrough"])
def test_realise_look_release(host: FakeHost, allocation: Allocation) -> None:
    framework = gpu.framework(allocation.framework)
    assert isinstance(framework.look(host.helper, allocation), Differs)
    assert not framework.holds(host.helper, allocation)
    framework.realise(host.helper, allocation)
    framework.realise(host.helper, allocation)
    assert framework.look(host.helper, allocation) == InState()
    assert framework.holds(host.helper, allocation)
    framework.release(host.helper, allocation)
    framework.release(host.helper, allocation)
    assert isinstance(framework.look(host.helper, allocation), Differs)
    assert (host.mdevs, host.claims, host.drivers[GPU]) == ({}, {}, "nvidia")


@pytest.mark.parametrize("allocation", [VGPU, WHOLE], ids=["mdev", "passthrough"])
def test_a_device_under_another_claim_is_not_ours(host: FakeHost, allocation: Allocation) -> None:
    other = replace(allocation, id="alloc-2")
    framework = gpu.framework(allocation.framework)
    framework.realise(host.helper, other)
    assert not framework.holds(host.helper, allocation)
    for verb in (framework.look, framework.realise, framework.release):
        with pytest.raises(Conflict):
            verb(host.helper, allocation)
    assert isinstance(framework.look(host.helper, other), InState)


def test_a_device_without_a_claim_is_not_ours(host: FakeHost) -> None:
    host.foreign_mdev(UUID, GPU, "nvidia-232")
    with pytest.raises(Conflict, match="not ours") as caught:
        gpu.framework("mdev").look(host.helper, VGPU)
    assert caught.value.why == "it exists without a claim"


@pytest.mark.parametrize("allocation", [VGPU, WHOLE], ids=["mdev", "passthrough"])
def test_a_claim_that_outlived_its_device_is_still_held(
    host: FakeHost, allocation: Allocation
) -> None:
    framework = gpu.framework(allocation.framework)
    framework.realise(host.helper, allocation)
    host.reboot()
    assert isinstance(framework.look(host.helper, allocation), Differs)
    assert framework.holds(host.helper, allocation)


def test_an_mdev_of_another_type_differs(host: FakeHost) -> None:
    gpu.framework("mdev").realise(host.helper, VGPU)
    host.mdevs[UUID] = (GPU, "nvidia-231")
    seen = gpu.framework("mdev").look(host.helper, VGPU)
    assert seen == Differs(f"mdev {UUID} is nvidia-231 on {GPU}")


def test_a_gpu_that_left_the_bus_differs(host: FakeHost) -> None:
    del host.drivers[GPU]
    assert "not on the bus" in str(gpu.framework("passthrough").look(host.helper, WHOLE))


def test_companions_are_bound_with_their_gpu(host: FakeHost) -> None:
    class Noting:
        args: Mapping[str, object] = {}

        def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
            self.args = {"verb": verb, **args}
            return {}

    helper = Noting()
    gpu.framework("passthrough").realise(helper, replace(WHOLE, companions=("0000:41:00.1",)))
    assert helper.args == {
        "verb": "vfio_bind",
        "address": GPU,
        "with": ["0000:41:00.1"],
        "claim": {"allocation": "alloc-1", "generation": 1, "vm": "web"},
    }


def test_hostdevs_name_the_device() -> None:
    assert gpu.framework("mdev").describe(VGPU, display=True) == (
        MdevHostdev(uuid=UUID, display=True),
    )
    assert gpu.framework("passthrough").describe(WHOLE, display=True) == (PciHostdev(address=GPU),)


def test_a_whole_gpus_siblings_follow_it_to_one_guest_slot() -> None:
    whole = replace(WHOLE, companions=("0000:41:00.1", "0000:41:00.2"))
    assert gpu.framework("passthrough").describe(whole, display=False) == (
        PciHostdev(address=GPU),
        PciHostdev(address="0000:41:00.1", follows=GPU),
        PciHostdev(address="0000:41:00.2", follows=GPU),
    )


def test_an_unknown_framework_is_an_error() -> None:
    with pytest.raises(ValueError, match="telepathy"):
        gpu.framework("telepathy")

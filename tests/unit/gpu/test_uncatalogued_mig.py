"""vGPUs in the GPU instances of boards outside the catalogue: by what their drivers tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.hosts.test_facts import gpu as probed
from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.model.gpu import Framework, GpuFacts, MdevType, VfFacts
from vgpumgr.model.supply import Offer

DEVICE = "2324"
PROFILES = [
    {"name": "1g.12gb", "id": 19, "slices": 1, "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]},
    {"name": "1g.12gb+me", "id": 20, "slices": 1, "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]},
    {"name": "3g.48gb", "id": 9, "slices": 3, "size": 4, "starts": [0, 4]},
    {"name": "7g.96gb", "id": 0, "slices": 7, "size": 8, "starts": [0]},
]
# As the driver numbers and names them, with their sizes in GiB and their instances' profiles.
TYPES = (
    (901, "NVIDIA H900-1-12C", 12, 19),
    (902, "NVIDIA H900-1-12CME", 12, 20),
    (903, "NVIDIA H900-3-48C", 48, 9),
    (904, "NVIDIA H900-7-96C", 96, 0),
)
EMPTY = {"creatable": [], "type": 0, "instance": None, "placement_id": None}


def told(types: Iterable[tuple[int, str, int, int]] = TYPES, **more: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "name": name,
            "profile_id": profile,
            "memory_mib": gib << 10,
            "per_instance": 1,
            "per_vm": 1,
            **more,
        }
        for number, name, gib, profile in types
    ]


def board(
    types: list[dict[str, Any]] | None,
    *,
    on: bool = True,
    vfs: int = 2,
    profiles: list[dict[str, Any]] = PROFILES,
) -> GpuFacts:
    """A probe's first GPU, of no board that the catalogue holds."""
    functions = [
        {"number": n, "address": f"0000:41:00.{n + 4}", "driver": "nvidia", "vgpu": EMPTY}
        for n in range(vfs)
    ]
    mig = {"enabled": on, "pending": on, "profiles": profiles, "instances": [], "types": types}
    sriov = {"total": 20, "num": vfs, "vfs": functions}
    facts = probed({"mig": mig}, {"device": DEVICE, "subsystem": "10de:0000", "sriov": sriov})
    assert catalog.board(facts.model) is None
    return frameworks.with_budget(replace(facts, mdev_types=()), None, empty=True)


def offered(facts: GpuFacts) -> dict[str, Offer]:
    found = {each.profile: each for each in frameworks.offers(facts)}
    found.pop("passthrough", None)
    return found


def test_what_the_driver_tells_is_offered_by_its_places() -> None:
    found = offered(board(told()))
    assert set(found) == {"1g.12gb", "1g.12gb+me", "3g.48gb", "7g.96gb"}
    half = found["3g.48gb"]
    assert (half.framework, half.type_id, half.names) == (
        Framework.VFIO_VF,
        "903",
        ("H900-3-48C",),
    )
    assert (half.units, half.memory_mib) == (48, 48 << 10)
    assert (half.max_instances, half.max_per_vm) == (2, 1)
    assert [(start.at, start.slots) for start in half.starts] == [
        (0, tuple(range(48))),
        (4, tuple(range(48, 96))),
    ]
    assert half.instance is not None
    assert (half.instance.profile, half.instance.profile_id) == ("3g.48gb", 9)
    assert (half.instance.size, half.instance.gpu_slices, half.instance.media) == (4, 3, False)
    media = found["1g.12gb+me"].instance
    assert (media is not None and media.media, found["1g.12gb+me"].max_instances) == (True, 1)
    assert (half.needs_vf, half.verified, half.series) == (True, False, "C")


def test_slots_are_gib_of_the_largest_type_however_the_gpu_is_partitioned() -> None:
    for facts in (board(told()), board(told(), on=False), board(told(), vfs=0)):
        assert frameworks.slots(facts, empty=True) == 96
    assert frameworks.slice_slots(board(told()), 1, 1) == tuple(range(12, 24))
    assert frameworks.compute_slices(board(told())) == 7


def test_a_slice_has_a_slot_at_least() -> None:
    facts = board(told([(901, "H900-1-1C", 1, 19)]))
    assert frameworks.slots(facts, empty=True) == 8
    assert offered(facts)["1g.12gb"].units == 1


def test_vgpus_that_share_an_instance_share_its_slots() -> None:
    gfx = [{"name": "1g.24gb+gfx", "id": 47, "slices": 1, "size": 1, "starts": [0, 1, 2, 3]}]
    types = [
        *told([(905, "NVIDIA P9 DC-1-24Q", 24, 47)]),
        *told([(906, "NVIDIA P9 DC-1-8Q", 8, 47)], per_instance=3),
        *told([(907, "NVIDIA P9 DC-1-1B", 1, 47)], per_instance=40),
    ]
    found = offered(board(types, profiles=gfx))
    assert set(found) == {"P9 DC-1-24Q", "P9 DC-1-8Q", "P9 DC-1-1B"}
    assert found["P9 DC-1-24Q"].names == ("1g.24gb+gfx",)
    third = found["P9 DC-1-8Q"]
    assert third.instance is not None
    assert (third.units, third.instance.per_instance, third.max_instances) == (8, 3, 12)
    assert third.size_class == 8 << 10
    least = found["P9 DC-1-1B"]
    assert least.instance is not None
    assert (least.units, least.instance.per_instance) == (1, 24)


@pytest.mark.parametrize("silent", ["per_instance", "per_vm"])
def test_one_is_what_is_not_told(silent: str) -> None:
    facts = board([{**each, silent: None} for each in told()])
    small = offered(facts)["1g.12gb"]
    assert small.instance is not None
    assert (small.instance.per_instance, small.max_per_vm) == (1, 1)


def test_on_older_kernels_vfs_list_them_as_mdev_types() -> None:
    facts = board(told())
    listed = MdevType(type_id="nvidia-903", name="NVIDIA H900-3-48C", available=0)
    vf = VfFacts(number=0, address="0000:41:00.4", mdev_types=(listed,))
    [half] = offered(replace(facts, vfs=(vf,))).values()
    assert (half.framework, half.type_id, half.profile) == (Framework.MDEV, "nvidia-903", "3g.48gb")


@pytest.mark.parametrize(
    ("types", "why"),
    [
        (None, "reports MIG profiles, but not which vGPUs they hold"),
        ([], "reports MIG profiles, but no vGPU type that is backed by one"),
        (told(), ""),
    ],
)
def test_why_nothing_is_offered_is_said(types: list[dict[str, Any]] | None, why: str) -> None:
    facts = board(types)
    assert bool(offered(facts)) is not bool(why)
    assert frameworks.no_mig_vgpus(facts).endswith(why)
    assert bool(frameworks.no_mig_vgpus(facts)) is bool(why)


def test_types_may_not_be_told_while_mig_is_off() -> None:
    why = frameworks.no_mig_vgpus(board([], on=False))
    assert why.endswith("but no vGPU type that is backed by one while MIG is off")


def test_a_layout_could_turn_mig_on() -> None:
    off = board(told(), on=False)
    assert offered(off) == {}
    could = frameworks.potential(off)
    assert could["3g.48gb"] == could["H900-3-48C"] == "mig: true, vfs: max"
    assert frameworks.potential(board(told())) == {}
    assert frameworks.potential(board(told(), vfs=0))["1g.12gb"] == "mig: true, vfs: max"


def test_in_mig_mode_a_layout_could_turn_it_off() -> None:
    sliced = replace(board(told()), vf_types={"800": "NVIDIA H900-24C"})
    assert frameworks.potential(sliced) == {"H900-24C": "mig: false, vfs: max"}


def test_users_may_write_what_a_host_told() -> None:
    names = frameworks.learned_profiles(board(told(), on=False))
    assert {"3g.48gb", "H900-3-48C", "1g.12gb+me"} <= names


def test_a_type_of_a_profile_without_places_is_not_offered() -> None:
    profiles = [{**each, "starts": []} if each["id"] == 9 else each for each in PROFILES]
    assert "3g.48gb" not in offered(board(told(), profiles=profiles))

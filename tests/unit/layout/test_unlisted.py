"""MIG of a board that the catalogue does not hold, by what its driver tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr import catalog, layout
from vgpumgr.layout.instances_part import behind
from vgpumgr.layout.target import LayoutRefused
from vgpumgr.model.gpu import Framework, GpuFacts, MigFacts, MigProfile, MigType
from vgpumgr.model.layout import CreateInstance, GpuLayout, InstanceGoal, SetMigMode
from vgpumgr.model.supply import Usage

UNLISTED = "10de:2324"
TOLD = (
    MigProfile(name="1g.10gb", profile_id=19, gpu_slices=1, size=1, starts=tuple(range(7))),
    MigProfile(name="3g.40gb", profile_id=9, gpu_slices=3, size=4, starts=(0, 4)),
    MigProfile(name="7g.80gb", profile_id=0, gpu_slices=7, size=8, starts=(0,)),
)


def board(*profiles: MigProfile) -> GpuFacts:
    """MIG is off."""
    return GpuFacts(
        device="0000:41:00.0",
        path="",
        model=UNLISTED,
        vendor_device=UNLISTED,
        driver="nvidia",
        mig=MigFacts(enabled=False, pending=False, profiles=profiles, instances=()),
    )


GOAL = GpuLayout(mig=True, instances=(InstanceGoal(profile="3g.40gb"),) * 2)


def test_it_is_cut_as_its_driver_tells() -> None:
    assert catalog.board(UNLISTED) is None
    _, changes = layout.plan(board(*TOLD), GOAL, (), ())
    assert changes[0] == SetMigMode(enabled=True)
    made = [each for each in changes if isinstance(each, CreateInstance)]
    assert [(each.profile_id, each.start, each.size) for each in made] == [(9, 0, 4), (9, 4, 4)]


def test_without_a_word_of_its_driver_it_is_refused() -> None:
    with pytest.raises(LayoutRefused, match=r"has no MIG profile 3g\.40gb"):
        layout.plan(board(), GOAL, (), ())


def test_the_instance_behind_a_vgpu_is_of_the_profile_that_its_driver_tells() -> None:
    told = MigType(type_id="906", profile="P9 DC-3-8Q", profile_id=9, memory_mib=8 << 10)
    facts = board(*TOLD)
    assert facts.mig is not None
    sliced = replace(facts, mig=replace(facts.mig, types=(told,)))
    for name in ("P9 DC-3-8Q", "3g.40gb"):
        held = Usage(profile=name, framework=Framework.VFIO_VF, units=8, vm="a", start=4)
        found = behind(sliced, held)
        assert (found.profile, found.profile_id, found.start, found.size) == ("3g.40gb", 9, 4, 4)

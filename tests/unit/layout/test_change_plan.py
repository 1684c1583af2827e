"""Layouts: the order of the parts, what is refused and why, what a VM's instance does to a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gpu.values import gpu, instance, mi300x, vendor_vfs
from tests.unit.layout.values import Driver, DriverHelper, run
from vgpumgr import layout
from vgpumgr.layout.change_plan import where_they_were
from vgpumgr.layout.instance_profiles import InstanceProfile
from vgpumgr.layout.target import TargetInstance
from vgpumgr.model.gpu import Framework, GpuFacts, GpuHealth, GpuInstance, MigFacts
from vgpumgr.model.layout import (
    VFS_MAX,
    CreateInstance,
    DestroyInstance,
    GpuLayout,
    InstanceGoal,
    PartChange,
    Scheduler,
    SetMigMode,
    SetMixedSize,
    SetScheduler,
    SetVfs,
)
from vgpumgr.model.operation import Differs, InState, Unknown
from vgpumgr.model.supply import Usage

A100 = "A100-PCIE-80GB"
MIG_ON = MigFacts(enabled=True, pending=True)
DESK = Usage(profile="A40-8Q", framework=Framework.MDEV, units=8, vm="desk-01")


def changes(facts: GpuFacts, goal: GpuLayout, *usages: Usage, made: tuple[int, ...] = ()):
    return layout.plan(facts, goal, usages, made)[1]


def refused(facts: GpuFacts, goal: GpuLayout, *usages: Usage, made: tuple[int, ...] = ()):
    with pytest.raises(layout.LayoutRefused) as caught:
        layout.plan(facts, goal, usages, made)
    assert caught.value.next, "every refusal says what to do"
    return caught.value


def mig(*instances, **rest) -> MigFacts:
    return replace(MIG_ON, instances=instances, **rest)


# -- the order -----------------------------------------------------------------------------------


def test_up_from_nothing_is_mig_mode_then_vfs_then_instances() -> None:
    goal = GpuLayout(
        mig=True,
        vfs=VFS_MAX,
        instances=(
            InstanceGoal(profile="1g.10gb", compute=("1g.10gb",)),
            InstanceGoal(profile="3g.40gb"),
        ),
    )
    found = changes(gpu(A100), goal)
    assert found[:2] == (SetMigMode(enabled=True), SetVfs(count=32))
    assert [type(each) for each in found[2:]] == [CreateInstance, CreateInstance]
    assert {(each.profile, each.size, each.compute) for each in found[2:]} == {
        ("3g.40gb", 4, ()),
        ("1g.10gb", 1, (0,)),
    }


def test_down_is_vfs_off_then_instances_then_mig_mode() -> None:
    facts = gpu(A100, mig=mig(instance("3g.40gb", 9, 4, 4, id=2)))
    with_vfs = replace(facts, vfs=vendor_vfs(A100, 32))
    goal = GpuLayout(mig=False, vfs=0)
    # Turning VFs off destroys the instances; without VFs they are destroyed by name.
    assert changes(with_vfs, goal) == (SetVfs(count=0), SetMigMode(enabled=False))
    assert changes(facts, goal) == (
        DestroyInstance(id=2, profile="3g.40gb", profile_id=9, start=4),
        SetMigMode(enabled=False),
    )


def test_mig_mode_changes_with_vfs_off_even_if_they_stay() -> None:
    facts = gpu(A100, vfs=vendor_vfs(A100, 32))
    assert changes(facts, GpuLayout(mig=True)) == (
        SetVfs(count=0),
        SetMigMode(enabled=True),
        SetVfs(count=32),
    )


def test_a_mode_that_waits_for_a_reset_is_a_difference() -> None:
    facts = gpu("H100-PCIE-80GB", mig=MigFacts(enabled=False, pending=True))
    found, done = layout.plan(facts, GpuLayout(mig=True), (), ())
    assert found == ("MIG mode: off until the next reset, wanted on",)
    assert done == (SetMigMode(enabled=True),)


def test_mixed_size_mode_comes_after_vfs_and_their_rebind_brings_the_rest_back() -> None:
    facts = gpu("A40", scheduler="equal-share")
    assert changes(facts, GpuLayout(vfs=VFS_MAX, mixed_size=True)) == (
        SetVfs(count=32),
        SetScheduler(policy=Scheduler.EQUAL_SHARE),
        SetMixedSize(enabled=True),
    )


def test_a_scheduler_that_forbids_mixed_sizes_goes_first_and_comes_last() -> None:
    facts = gpu("A40", vfs=vendor_vfs("A40", 32), scheduler="fixed-share")
    mixed = GpuLayout(mixed_size=True, scheduler=Scheduler.BEST_EFFORT)
    best, on = SetScheduler(policy=Scheduler.BEST_EFFORT), SetMixedSize(enabled=True)
    assert changes(facts, mixed) == (best, on)
    back = GpuLayout(mixed_size=False, scheduler=Scheduler.FIXED_SHARE)
    facts = replace(facts, mixed_size=True, scheduler="best-effort")
    assert changes(facts, back) == (
        SetMixedSize(enabled=False),
        SetScheduler(policy=Scheduler.FIXED_SHARE),
    )


def test_some_vfs_of_all_go_through_none() -> None:
    facts = gpu("A40", vfs=vendor_vfs("A40", 3))
    assert changes(facts, GpuLayout(vfs=VFS_MAX)) == (SetVfs(count=0), SetVfs(count=32))


# -- instances -----------------------------------------------------------------------------------


def test_what_is_there_stays_and_only_the_rest_is_made() -> None:
    facts = gpu(A100, mig=mig(instance("1g.10gb", 19, 3, 1)))
    goal = GpuLayout(instances=(InstanceGoal(profile="1g.10gb"), InstanceGoal(profile="3g.40gb")))
    [made] = changes(facts, goal)
    assert isinstance(made, CreateInstance)
    assert (made.profile, made.start) == ("3g.40gb", 4)


def test_an_instance_in_the_way_goes_before_the_new_one_comes() -> None:
    facts = gpu(A100, mig=mig(instance("1g.10gb", 19, 3, 1), instance("1g.10gb", 19, 6, 1, id=8)))
    goal = GpuLayout(instances=(InstanceGoal(profile="3g.40gb"), InstanceGoal(profile="4g.40gb")))
    assert [type(each) for each in changes(facts, goal)] == [DestroyInstance] * 2 + [
        CreateInstance
    ] * 2


def test_an_instance_with_other_compute_instances_is_made_anew() -> None:
    facts = gpu(A100, mig=mig(instance("3g.40gb", 9, 0, 4)))
    goal = GpuLayout(instances=(InstanceGoal(profile="3g.40gb", start=0, compute=("1c.3g.40gb",)),))
    away, made = changes(facts, goal)
    assert isinstance(away, DestroyInstance)
    assert isinstance(made, CreateInstance)
    assert made.compute == (0,)


def test_undeclared_compute_instances_are_the_guests() -> None:
    driver = Driver(A100, enabled=True, pending=True, instances={0: ("3g.40gb", (0, 0))})
    goal = GpuLayout(instances=(InstanceGoal(profile="3g.40gb"),))
    assert layout.plan(driver.facts(), goal, (), ()) == ((), ())


def test_what_was_made_for_a_vm_is_no_drift_and_is_never_destroyed() -> None:
    facts = gpu(A100, mig=mig(instance("1g.10gb", 19, 5, 1)))
    mine = Usage(profile="1g.10gb", framework=Framework.VFIO_VF, units=10, vm="ml-1", start=5)
    goal = GpuLayout(mig=True, instances=())
    assert layout.plan(facts, goal, (mine,), (5,)) == ((), ())
    more = GpuLayout(mig=True, instances=(InstanceGoal(profile="3g.40gb"),))
    [made] = changes(facts, more, mine, made=(5,))
    assert isinstance(made, CreateInstance)
    assert made.start == 0


def test_a_vms_instance_in_the_way_is_named() -> None:
    facts = gpu(A100, mig=mig(instance("1g.10gb", 19, 5, 1)))
    mine = Usage(profile="1g.10gb", framework=Framework.VFIO_VF, units=10, vm="ml-1", start=5)
    goal = GpuLayout(instances=tuple(InstanceGoal(profile="3g.40gb") for _ in range(2)))
    error = refused(facts, goal, mine, made=(5,))
    assert "has no room for 2 × 3g.40gb" in error.message
    assert "1g.10gb at 5" in error.why


def test_a_place_that_a_vm_holds_before_its_instance_is_made_is_taken() -> None:
    held = Usage(profile="3g.40gb", framework=Framework.VFIO_VF, units=40, vm="ml-1", start=0)
    goal = GpuLayout(instances=(InstanceGoal(profile="3g.40gb"),))
    [made] = changes(gpu(A100, mig=MIG_ON), goal, held)
    assert isinstance(made, CreateInstance)
    assert made.start == 4


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ([("4g.40gb", None), ("4g.40gb", None)], "compute slices"),
        ([("1g.10gb+me", 0), ("1g.10gb+me", 1)], "one +me"),
        ([("1g.10gb", None)] * 8, "compute slices"),
        ([("9g.90gb", None)], "it has 7g.80gb"),
        ([("3g.40gb", 2)], "its places are 0, 4"),
        ([("3g.40gb", 0), ("1g.10gb", 3)], "no overlap"),
    ],
)
def test_instances_that_cannot_be_are_refused(wanted, why: str) -> None:
    goal = GpuLayout(
        mig=True, instances=tuple(InstanceGoal(profile=p, start=start) for p, start in wanted)
    )
    assert why in refused(gpu(A100), goal).why


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (("5c.3g.40gb",), "not a compute instance of 3g.40gb"),
        (("3g.40gb", "1c.3g.40gb"), "do not fit into one 3g.40gb"),
    ],
)
def test_compute_instances_that_cannot_be_are_refused(compute, message: str) -> None:
    goal = GpuLayout(mig=True, instances=(InstanceGoal(profile="3g.40gb", compute=compute),))
    assert message in refused(gpu(A100), goal).message


# -- guests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    [
        GpuLayout(mixed_size=True),
        GpuLayout(vfs=0),
        GpuLayout(scheduler=Scheduler.EQUAL_SHARE),
    ],
)
def test_any_guest_blocks_what_concerns_the_whole_gpu(goal: GpuLayout) -> None:
    facts = gpu("A40", vfs=vendor_vfs("A40", 32), scheduler="best-effort")
    stranger = Usage(profile="A40-4Q", framework=Framework.MDEV, units=4, foreign="mdev 1234")
    error = refused(facts, goal, DESK, stranger, DESK)
    assert error.holders == ("desk-01", "mdev 1234")
    assert "desk-01, mdev 1234" in error.message


def test_a_gpu_given_whole_is_left_alone_unless_it_is_as_declared() -> None:
    whole = Usage(profile="passthrough", framework=Framework.PASSTHROUGH, units=48, vm="train")
    facts = gpu("A40", driver="vfio-pci", uuid=None, mixed_size=None)
    assert refused(facts, GpuLayout(vfs=VFS_MAX), whole).holders == ("train",)
    assert layout.plan(facts, GpuLayout(vfs=0), (whole,), ()) == ((), ())


def test_a_guests_instance_is_not_destroyed_and_others_may_be() -> None:
    facts = gpu(A100, mig=mig(instance("1g.10gb", 19, 0, 1), instance("1g.10gb", 19, 1, 1, id=8)))
    user = Usage(profile="1g.10gb", framework=Framework.VFIO_VF, units=10, vm="ml-1", start=0)
    assert refused(facts, GpuLayout(instances=()), user).holders == ("ml-1",)
    one = GpuLayout(instances=(InstanceGoal(profile="1g.10gb"),))
    [gone] = changes(facts, one, user)
    assert isinstance(gone, DestroyInstance)
    assert gone.start == 1


def test_a_stranger_whose_instance_is_not_known_blocks_them_all() -> None:
    facts = gpu(A100, mig=mig(instance("1g.10gb", 19, 0, 1)))
    stranger = Usage(profile="1g.10gb", framework=Framework.MDEV, units=10, foreign="mdev 12")
    assert refused(facts, GpuLayout(instances=()), stranger).holders == ("mdev 12",)


def test_instances_left_of_vms_block_a_rebind() -> None:
    facts = gpu(A100, vfs=vendor_vfs(A100, 32), mig=mig(instance("1g.10gb", 19, 0, 1)))
    assert "created for VMs" in refused(facts, GpuLayout(vfs=0), made=(0,)).message


# -- what a board, a driver or a probe forbids ---------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "goal", "message"),
    [
        (gpu("A40"), GpuLayout(mig=True), "has no MIG"),
        (gpu(A100), GpuLayout(instances=(InstanceGoal(profile="1g.10gb"),)), "MIG mode is off"),
        (gpu(A100), GpuLayout(mig=True, mixed_size=True, vfs=VFS_MAX), "cannot mix sizes"),
        (gpu("A40"), GpuLayout(mixed_size=True), "cannot mix sizes"),
        (gpu("T4"), GpuLayout(mixed_size=True), "cannot mix sizes"),
        (gpu("T4"), GpuLayout(vfs=VFS_MAX), "on the physical function"),
        (gpu("A40", sriov_total=0), GpuLayout(vfs=VFS_MAX), "shows no SR-IOV"),
        (gpu("A40"), GpuLayout(vfs=8), "all its 32 VFs on, or none"),
        (gpu("A40"), GpuLayout(vfs=64), "more than the 32"),
        (gpu("A40"), GpuLayout(scheduler=Scheduler.EQUAL_SHARE), "no choice of schedulers"),
        (
            gpu("M60", scheduler="best-effort"),
            GpuLayout(scheduler=Scheduler.FIXED_SHARE),
            "no choice of schedulers",
        ),
        (
            gpu("A40", scheduler="fixed-share", vfs=vendor_vfs("A40", 32)),
            GpuLayout(mixed_size=True),
            "mixed sizes and fixed shares",
        ),
        (gpu("A40", health=GpuHealth.LOST), GpuLayout(vfs=VFS_MAX), "fell off the bus"),
        (gpu("A40", driver=None), GpuLayout(vfs=VFS_MAX), "is on no driver"),
        (
            gpu(A100),
            GpuLayout(mig=True, scheduler=Scheduler.EQUAL_SHARE),
            "no choice of schedulers",
        ),
        (mi300x(1), GpuLayout(vfs=8), "gim alone creates the VFs"),
        (mi300x(1), GpuLayout(vfs=4), "supports 1, 8 VFs, not 4"),
        (mi300x(1), GpuLayout(mig=True), "has no MIG"),
    ],
)
def test_what_cannot_be_is_refused(facts: GpuFacts, goal: GpuLayout, message: str) -> None:
    assert message in refused(facts, goal).message


def test_the_module_option_is_printed() -> None:
    assert "options gim vf_num=8" in refused(mi300x(1), GpuLayout(vfs=VFS_MAX)).next


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        (gpu(A100, mig=None), GpuLayout(mig=True)),
        (gpu(A100, mig=None), GpuLayout(mig=False)),
        (gpu(A100, mig=replace(MIG_ON, instances=None)), GpuLayout(instances=())),
        (gpu(A100, mig=replace(MIG_ON, instances=None)), GpuLayout(vfs=VFS_MAX)),
        (gpu("A40", uuid=None, mixed_size=None), GpuLayout(mixed_size=False)),
        (gpu("A40", uuid=None), GpuLayout(scheduler=Scheduler.BEST_EFFORT)),
    ],
)
def test_what_could_not_be_read_is_never_changed(facts: GpuFacts, goal: GpuLayout) -> None:
    error = refused(facts, goal)
    assert "could not be read" in error.message
    assert layout.differences(facts, goal, ())


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        (gpu("A40"), GpuLayout(mig=False, vfs=0)),
        (gpu("T4", mixed_size=None), GpuLayout(mixed_size=False, vfs=0)),
        (mi300x(8), GpuLayout(vfs=8)),
        (mi300x(8), GpuLayout(vfs=VFS_MAX)),
        (gpu(A100, mig=replace(MIG_ON, instances=None)), GpuLayout(mig=True)),
    ],
)
def test_a_gpu_as_declared_needs_nothing(facts: GpuFacts, goal: GpuLayout) -> None:
    assert layout.plan(facts, goal, (DESK,), ()) == ((), ())


def test_intel_takes_a_count() -> None:
    flex = replace(mi300x(0), model="FLEX-170", vendor_device="8086:56c0", sriov_total=31)
    assert changes(flex, GpuLayout(vfs=5)) == (SetVfs(count=5),)
    assert changes(flex, GpuLayout(vfs=VFS_MAX)) == (SetVfs(count=31),)


# -- on the host ---------------------------------------------------------------------------------

ALL: tuple[PartChange, ...] = (
    SetMigMode(enabled=True),
    SetVfs(count=32),
    SetMixedSize(enabled=True),
    SetScheduler(policy=Scheduler.FIXED_SHARE),
    DestroyInstance(id=7, profile="1g.10gb", profile_id=19, start=0),
    CreateInstance(profile="3g.40gb", profile_id=9, start=4, size=4, compute=(0, 1)),
)


@pytest.mark.parametrize("change", ALL, ids=lambda each: type(each).__name__)
def test_a_change_survives_the_journal_and_reads_well(change: PartChange) -> None:
    plain = layout.to_plain(change)
    assert layout.from_plain(plain) == change
    assert plain["kind"]
    assert layout.summary(change)[0].islower()


class Dark:
    """A helper that could read nothing."""

    def call(self, verb: str, args: object) -> dict[str, object]:
        return {"device": None, "nvml": None}


@pytest.mark.parametrize("change", ALL, ids=lambda each: type(each).__name__)
def test_what_cannot_be_seen_is_unknown(change: PartChange) -> None:
    assert isinstance(layout.look(Dark(), "0000:41:00.0", change), Unknown)


def test_each_change_is_seen_before_and_after() -> None:
    driver = Driver(A100, instances={}, policy="best-effort")
    helper = DriverHelper(driver)
    for change in ALL:
        if not isinstance(change, SetMixedSize | SetScheduler | DestroyInstance):
            assert isinstance(layout.look(helper, "0000:41:00.0", change), Differs)
            run(driver, (change,))
    free = Driver("A40", vfs=32)
    for change in ALL[2:4]:
        assert isinstance(layout.look(DriverHelper(free), "0000:41:00.0", change), Differs)
    run(free, (SetScheduler(policy=Scheduler.FIXED_SHARE),))
    made = ALL[-1]
    assert isinstance(made, CreateInstance)
    gone = DestroyInstance(id=11, profile="3g.40gb", profile_id=9, start=4)
    assert isinstance(layout.look(helper, "0000:41:00.0", gone), Differs)
    run(driver, (gone,))
    assert isinstance(layout.look(helper, "0000:41:00.0", gone), InState)
    assert isinstance(layout.look(helper, "0000:41:00.0", made), Differs)


def test_lost_vgpus_get_declared_instances_at_the_places_where_they_were() -> None:
    small = InstanceProfile("1g.10gb", 19, 1, 1, (0, 1, 2), media=False, most=7)
    large = InstanceProfile("3g.40gb", 9, 4, 3, (0, 4), media=False, most=2)
    wants = (TargetInstance(small), TargetInstance(large), TargetInstance(small, start=2))
    lived = [
        GpuInstance(id=1, profile="1g.10gb", profile_id=19, start=1, size=1),
        GpuInstance(id=2, profile="1g.10gb", profile_id=19, start=2, size=1),
        GpuInstance(id=3, profile="1g.10gb", profile_id=19, start=0, size=1),
    ]
    found = where_they_were(wants, lived)
    assert [each.start for each in found] == [1, None, 2]

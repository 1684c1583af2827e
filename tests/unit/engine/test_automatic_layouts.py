"""GPUs partitioned for what is asked, where nobody wrote a layout; and GPUs that are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tests.contract.simulated.host import SimMachine
from tests.simworld import NEW, OLD, SimWorld, host, vm
from tests.unit.engine.foreign import domain, pci_hostdev
from vgpumgr.engine.capacity.profile_capacity import capacity
from vgpumgr.engine.capacity.relayout_capacity import with_layouts
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.planning.automatic_layouts import partitionable
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.model.errors import HostRefused, NoPlacement, VgpumgrError
from vgpumgr.model.host import AUTO, DECLARED, Versions
from vgpumgr.model.layout import AUTOMATIC, VFS_MAX, GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.queue import QueueState
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm import GpuRequest, Terms
from vgpumgr.placement.fleet_room import FleetRoom

Worlds = Callable[..., SimWorld]


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    made: list[SimWorld] = []

    def make(*hosts: SimHost, layout: str = AUTO) -> SimWorld:
        world = SimWorld(tmp_path / str(len(made)), *hosts)
        made.append(world)
        for each in hosts:
            set_layout(world, layout, each.name)
        world.engine.refresh()
        return world

    for number in range(9):
        (tmp_path / str(number)).mkdir()
    yield make
    for world in made:
        world.close()


def set_layout(world: SimWorld, layout: str, name: str = "h1") -> None:
    world.ledger.update_host(replace(world.ledger.host(name), layout=layout))


def partitioned(world: SimWorld) -> dict[str, str]:
    """By host and device: the layouts that the ledger has, an unfinished one with a mark."""
    devices = {gpu.id: f"{gpu.host} {gpu.facts.device}" for gpu in world.ledger.gpus()}
    return {
        devices[each.gpu]: each.layout if each.settled else f"{each.layout}?"
        for each in world.ledger.layouts()
    }


def kept(world: SimWorld, name: str = "h1") -> list[str]:
    """The layouts that a host keeps for its next boot."""
    return [each.vm for each in world.facts(name).claims if each.unit.startswith("layout-")]


def remove(world: SimWorld, *names: str) -> None:
    world.delete(*names)
    world.engine.refresh()


GPU = "h1 0000:41:00.0"
WAYS = [
    ("A40", OLD, "A40-8Q", "vfs: max", (32, None, False)),
    ("A40", NEW, "A40-8Q", "vfs: max", (32, None, False)),
    ("L40S", NEW, "L40S-8Q", "vfs: max", (32, None, False)),
    ("A100-PCIE-80GB", OLD, "A100D-10C", "mig: false, vfs: max", (20, False, False)),
    ("A100-PCIE-80GB", NEW, "3g.40gb", "mig: true, vfs: max", (20, True, None)),
    ("A100-PCIE-80GB", OLD, "1g.10gb", "mig: true, vfs: max", (20, True, None)),
    ("H100-PCIE-80GB", NEW, "1g.10gb", "mig: true, vfs: max", (20, True, None)),
]


@pytest.mark.parametrize(("board", "versions", "profile", "words", "after"), WAYS)
def test_an_empty_gpu_is_partitioned_for_what_is_asked(
    board: str, versions: Versions, profile: str, words: str, after: object, worlds: Worlds
) -> None:
    world = worlds(host(board, versions=versions))
    [action] = world.engine.plan([vm("desk", profile)]).actions
    assert action.details[0] == f"partition 0000:41:00.0: {words}"
    assert partitioned(world) == {}, "a plan changes nothing"

    world.apply(vm("desk", profile))
    gpu = world.gpu()
    assert (len(gpu.vfs), gpu.mig and gpu.mig.enabled, gpu.mixed_size) == after
    assert partitioned(world) == {GPU: AUTOMATIC} and kept(world) == [AUTOMATIC]
    assert world.engine.plan([vm("desk", profile)]).changes == 0
    assert not world.engine.layout_plan(None).gpus, "the layout that is recorded is reached"
    # The next one goes to what is partitioned, without a word.
    [action] = world.engine.plan([vm("next", profile)]).actions
    assert not action.details[0].startswith("partition")


def test_without_the_setting_a_layout_is_asked_for(worlds: Worlds) -> None:
    world = worlds(host("L40S"), layout=DECLARED)
    [refused] = world.engine.plan([vm("desk", "L40S-8Q")]).unplaced
    assert [each.code for each in refused.reasons] == ["needs-layout"]
    with pytest.raises(NoPlacement):
        world.apply(vm("desk", "L40S-8Q"))
    assert len(world.gpu().vfs) == 0


def test_sizes_that_do_not_go_together_get_mixed_size_mode(worlds: Worlds) -> None:
    world = worlds(host("L40S"))
    world.apply(vm("a", "L40S-8Q"), vm("b", "L40S-12Q"))
    assert world.gpu().mixed_size is True
    two = worlds(host("L40S", "L40S"))
    two.apply(vm("a", "L40S-8Q"), vm("b", "L40S-12Q"))
    assert [two.gpu(number).mixed_size for number in (0, 1)] == [False, False]


def test_an_order_of_all_kinds_is_partitioned_at_once(worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB", "A100-PCIE-80GB", "A100-PCIE-80GB"))
    world.apply(
        *(vm(f"mig-{n}", "1g.10gb") for n in range(7)),
        *(vm(f"vgpu-{n}", "A100D-10C") for n in range(8)),
        vm("whole", "passthrough"),
    )
    modes = [world.gpu(number) for number in range(3)]
    assert sorted(bool(gpu.mig and gpu.mig.enabled) for gpu in modes) == [False, False, True]
    assert len(partitioned(world)) == 2, "the whole GPU needed nothing"


def test_parts_that_no_gpu_makes_together_are_made_on_two(worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB", "A100-PCIE-80GB"))
    world.apply(vm("both", "1g.10gb", "passthrough"))
    assert {bool(world.gpu(n).mig and world.gpu(n).mig.enabled) for n in (0, 1)} == {True, False}
    assert len(partitioned(world)) == 1, "the whole GPU is left as it is"


def test_a_gpu_that_fits_as_it_is_comes_first(worlds: Worlds) -> None:
    world = worlds(host("L40S"), host("L40S", name="h2"))
    world.cut(GpuLayout(vfs=VFS_MAX), "h2")
    [action] = world.engine.plan([vm("desk", "L40S-8Q")]).actions
    assert action.host == "h2" and not action.details[0].startswith("partition")


def test_an_empty_gpu_is_partitioned_anew(worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB"))
    for name, profile in (("a", "A100D-10C"), ("b", "1g.10gb"), ("c", "passthrough")):
        world.apply(vm(name, profile))
        assert partitioned(world) == {GPU: AUTOMATIC}
        remove(world, name)
    gpu = world.gpu()
    assert (len(gpu.vfs), gpu.mig and gpu.mig.enabled) == (0, False)


def test_what_stands_on_it_keeps_a_gpu_as_it_is(worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB"))
    world.apply(vm("desk", "A100D-10C"))
    with pytest.raises(NoPlacement):
        world.apply(vm("mig", "1g.10gb"))
    assert world.gpu().mig and not world.gpu().mig.enabled


def test_a_declared_layout_wins(worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB"))
    world.cut(GpuLayout(mig=False, vfs=0))
    with pytest.raises(NoPlacement):
        world.apply(vm("mig", "1g.10gb"))
    assert partitioned(world) == {GPU: "cut"}


def test_a_layout_takes_over_what_was_automatic(worlds: Worlds) -> None:
    world = worlds(host("L40S"))
    world.apply(vm("desk", "L40S-8Q"))
    world.cut(GpuLayout(vfs=VFS_MAX))
    assert partitioned(world) == {GPU: "cut"} and kept(world) == ["cut"]
    remove(world, "desk")
    with pytest.raises(NoPlacement):
        world.apply(vm("whole", "passthrough"))


def test_a_vm_that_is_refused_leaves_the_gpu_as_it_was(worlds: Worlds) -> None:
    world = worlds(host("L40S"))
    world.sim.inject("h1", ["refuse", "domains.start", "EIO", "1"])
    [found] = world.engine.apply([vm("desk", "L40S-8Q")])[1].vms
    assert isinstance(found.error, HostRefused)
    assert len(world.gpu().vfs) == 0
    assert partitioned(world) == {} and kept(world) == []
    world.sim.inject("h1", ["clear"])
    world.apply(vm("desk", "L40S-8Q"))
    assert partitioned(world) == {GPU: AUTOMATIC}


def test_two_vms_on_a_gpu_of_which_one_is_refused(worlds: Worlds) -> None:
    """The first takes its partitioning back, and the second makes it anew."""
    world = worlds(host("L40S"))
    world.sim.inject("h1", ["refuse", "domains.define", "EINVAL", "1"])
    outcome = world.engine.apply([vm("a", "L40S-8Q"), vm("b", "L40S-8Q")])[1]
    assert [each.vm for each in outcome.done] == ["b"]
    assert len(world.gpu().vfs) == 32
    assert partitioned(world) == {GPU: AUTOMATIC} and kept(world) == [AUTOMATIC]
    world.apply(vm("a", "L40S-8Q"))


def test_a_gpu_that_cannot_be_partitioned_is_passed_over(worlds: Worlds) -> None:
    world = worlds(host("L40S"), host("L40S", name="h2"))
    world.sim.inject("h1", ["gpu", "0000:41:00.0", "client", "Xorg"])
    world.apply(vm("desk", "L40S-8Q"))
    assert world.ledger.vm("desk").host == "h2"
    assert partitioned(world) == {"h2 0000:41:00.0": AUTOMATIC}
    assert len(world.gpu().vfs) == 0 and kept(world) == []


def test_an_older_helper_does_not_tell_where_vfs_will_be(worlds: Worlds) -> None:
    world = worlds(host("L40S"))
    kernel = world.sim.hosts["h1"].kernel
    for name in ("sriov_offset", "sriov_stride"):
        kernel.tree.drop(f"{kernel.sriov['0000:41:00.0'].pf.path}/{name}")
    world.engine.refresh()
    with pytest.raises(NoPlacement):
        world.apply(vm("desk", "L40S-8Q"))


def _vfs_on(world: SimWorld, number: int) -> None:
    """As somebody's script turns them on."""
    gpu = world.gpu(number)
    args = {"gpu": gpu.device, "count": gpu.sriov_total}
    world.hosts.open(world.ledger.host("h1")).helper.call("vfs_set", args)


def _vgpu(world: SimWorld, number: int) -> None:
    """A vGPU of another hand, as `echo TYPE > current_vgpu_type` makes it."""
    _vfs_on(world, number)
    vf = world.gpu(number).vfs[0]
    kind = (vf.vendor.creatable or (0,))[-1] if vf.vendor else 0
    path = f"/sys/bus/pci/devices/{vf.address}/nvidia/current_vgpu_type"
    SimMachine(world.sim.hosts["h1"]).write(path, str(kind))


def _named(world: SimWorld, number: int, *, vf: bool) -> None:
    """A domain of another hand that is off, and names a function."""
    if vf:
        _vfs_on(world, number)
    gpu = world.gpu(number)
    address = gpu.vfs[-1].address if vf else gpu.device
    xml = domain(f"foreign-{number}", pci_hostdev(address), uuid=str(UUID(int=number + 1)))
    world.hosts.open(world.ledger.host("h1")).domains.define(xml)


def _instance(world: SimWorld, number: int) -> None:
    """A GPU instance that somebody made for programs of the host, where the board has any."""
    gpu, helper = world.gpu(number), world.hosts.open(world.ledger.host("h1")).helper
    if gpu.mig is None:
        _vgpu(world, number)
    else:
        helper.call("mig_mode_set", {"gpu": gpu.device, "enabled": True})
        args = {"gpu": gpu.device, "profile_id": 19, "size": 1, "compute": [], "start": 0}
        helper.call("gi_create", args)


def _declared(world: SimWorld, number: int) -> None:
    """A Layout that leaves the GPU as it is."""
    rule = LayoutRule(layout=GpuLayout(vfs=0), devices=(world.gpu(number).device,))
    spec = LayoutSpec(name=f"plain-{number}", hosts=("h1",), rules=(rule,))
    world.engine.layout_apply([spec])[1].raise_for_failure()


def _quarantined(world: SimWorld, number: int) -> None:
    gpu = next(g for g in world.ledger.gpus() if g.facts.device == world.gpu(number).device)
    world.ledger.quarantine(gpu.id, "somebody said so")


def _unread(world: SimWorld, number: int) -> None:
    world.sim.inject("h1", ["gpu", world.gpu(number).device, "hidden"])


def _held(world: SimWorld, number: int) -> None:
    """A program of the host, which no probe shows."""
    world.sim.inject("h1", ["gpu", world.gpu(number).device, "client", "trainer"])


USES: tuple[Callable[[SimWorld, int], None], ...] = (
    _vgpu,
    lambda world, number: _named(world, number, vf=True),
    lambda world, number: _named(world, number, vf=False),
    _instance,
    _declared,
    _quarantined,
    _unread,
    _held,
)
FAULTS = (_unread, _held)
ASKED = ("A100D-10C", "1g.10gb", "3g.40gb", "L40S-8Q", "L40S-12Q", "A40-8Q", "passthrough")


@pytest.mark.parametrize("seed", range(16))
def test_a_gpu_in_use_is_never_partitioned(seed: int, worlds: Worlds) -> None:
    chance = random.Random(seed)
    world = worlds(host(*chance.choices(["A100-PCIE-80GB", "L40S", "A40"], k=5)))
    used = {number: chance.choice(USES) for number in chance.sample(range(5), 3)}
    faults = {number: use for number, use in used.items() if use in FAULTS}
    for number in used.keys() - faults.keys():
        used[number](world, number)
    before = {number: shape(world, number) for number in used}
    for number, fault in faults.items():
        fault(world, number)
    world.engine.refresh()
    for order in range(3):
        wanted = [vm(f"vm-{order}-{n}", chance.choice(ASKED)) for n in range(4)]
        with suppress(VgpumgrError):
            world.engine.apply(wanted, partial=True)
    world.sim.inject("h1", ["clear"])
    whole = {each.device for each in world.ledger.allocations() if not each.type_id}
    for number, was in before.items():
        if world.gpu(number).device in whole:  # given as it is to a VM of ours: it had no VFs
            assert was[:2] == ((), False)
        else:
            assert shape(world, number) == was


def shape(world: SimWorld, number: int) -> tuple[object, ...]:
    """How a GPU is partitioned."""
    gpu = world.gpu(number)
    mig = gpu.mig is not None and (gpu.mig.enabled or gpu.mig.pending)
    return tuple(vf.address for vf in gpu.vfs), mig, gpu.mixed_size


def test_a_queued_vm_starts_on_a_gpu_that_is_partitioned_for_it(worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB"))
    world.apply(vm("desk", "A100D-80C"))
    waits = vm("job", "1g.10gb", queue=Terms())
    world.engine.apply([waits])
    assert [each.state for each in world.ledger.queue()] == [QueueState.WAITING]
    remove(world, "desk")
    assert queue_cycle.step(world.engine).started == ("job",)
    assert [each.state for each in world.ledger.queue()] == [QueueState.RUNNING]
    assert world.gpu().mig.enabled and partitioned(world) == {GPU: AUTOMATIC}


@pytest.mark.parametrize("profile", ["A100D-10C", "3g.40gb", "L40S-8Q"])
def test_capacity_is_what_can_be_applied(profile: str, worlds: Worlds) -> None:
    world = worlds(host("A100-PCIE-80GB", "A100-PCIE-80GB", "L40S"), host("L40S", name="h2"))
    set_layout(world, DECLARED, "h2")
    world.apply(vm("desk", "A100D-20C"))
    world.engine.refresh()
    view = world.engine.view()
    room = FleetRoom(build_fleet(view), vm("one"))
    found = {each.profile: each for each in with_layouts(view, room, capacity(room))}[profile]
    wanted = [vm(f"vm-{n}", profile) for n in range(40)]
    assert found.fits == len(world.engine.plan(wanted).actions) > 0
    assert (found.layout, found.fits_after > found.fits) == (
        ("vfs: max", True) if profile == "L40S-8Q" else ("", False)
    )


def test_reasons_tell_what_is_partitioned_by_itself(worlds: Worlds) -> None:
    world = worlds(host("L40S", "L40S"), host("L40S", name="h2"))
    set_layout(world, DECLARED, "h2")
    [found] = world.engine.explain([vm("desk", "L40S-8Q")])
    said = {(each.host, each.device): each.text for each in found.reasons}
    assert "is partitioned for L40S-8Q when a VM needs it" in said["h1", "0000:43:00.0"]
    assert "with a layout: vfs: max" in said["h2", "0000:41:00.0"]

    [big] = world.engine.explain([vm("big", "L40S-8Q", memory_mib=64 << 20)])
    assert big.host is None
    assert {each.code for each in big.reasons if each.host == "h1"} == {"memory"}


def test_memory_that_is_asked_for_is_not_a_whole_gpu(worlds: Worlds) -> None:
    world = worlds(host("A40", "A40"))
    small = vm("small", gpus=(GpuRequest(memory_mib=8 << 10),))
    most = vm("most", gpus=(GpuRequest(memory_mib=40 << 10),))
    found = {each.vm.name: each for each in world.engine.plan([small, most]).actions}
    assert found["small"].details[0].startswith("partition")
    assert found["small"].placed.assignments[0].offer.profile.startswith("A40-8")
    assert found["most"].placed.assignments[0].offer.profile == "passthrough"


def test_a_gpu_that_is_being_partitioned_takes_no_other_vm(worlds: Worlds) -> None:
    world = worlds(host("L40S"))
    world.apply(vm("desk", "L40S-8Q"))
    remove(world, "desk")
    view = world.engine.view()
    cut = tuple(replace(each, settled=False) for each in view.layouts)
    [gpu] = build_fleet(replace(view, layouts=cut)).hosts[0].gpus
    assert gpu.blocked.startswith("its layout (auto) is not finished (vgpumgr operation list;")
    assert partitionable(view, build_fleet(view))
    assert not partitionable(replace(view, layouts=cut), build_fleet(replace(view, layouts=cut)))

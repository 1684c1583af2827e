"""GPUs partitioned for what is asked, where nobody wrote a layout; and GPUs that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import NEW, OLD, SimWorld, host, vm
from vgpumgr.model.errors import HostRefused, NoPlacement
from vgpumgr.model.host import AUTO, DECLARED, Versions
from vgpumgr.model.layout import AUTOMATIC, VFS_MAX, GpuLayout
from vgpumgr.model.sim_fleet import SimHost

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

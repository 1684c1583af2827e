"""A host boots without a controller: its GPUs, devices and autostart VMs are as before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from tests.e2e.support import Cli, new_cli
from tests.e2e.support import host as sim_host
from tests.e2e.support import vm as vm_document
from tests.property.test_sim_kill_points import WAYS, Way
from tests.simworld import SimWorld, host, vm
from vgpumgr.app.enrolment import HELPER_VERSION
from vgpumgr.endpoints import host_items
from vgpumgr.helper import dispatch
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, HostRefused
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import (
    VFS_MAX,
    GpuLayout,
    InstanceGoal,
    LayoutPlan,
    LayoutRule,
    LayoutSpec,
)

A100 = "A100-PCIE-80GB"
ON = GpuLayout(vfs=VFS_MAX)
CARVED = GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile="3g.40gb"),))
NOT_KEPT = "not kept on the host for its next boot"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


def state(facts: HostFacts) -> HostFacts:
    """What a boot must leave as it was; the kernel numbers groups anew."""
    mdevs = (replace(mdev, iommu_group=None) for mdev in facts.mdevs)
    gpus = tuple(map(without_groups, facts.gpus))
    mdevs_by_uuid = tuple(sorted(mdevs, key=lambda each: each.uuid))
    return replace(facts, boot_id="", gpus=gpus, mdevs=mdevs_by_uuid)


def without_groups(gpu: GpuFacts) -> GpuFacts:
    return replace(gpu, vfs=tuple(replace(each, iommu_group=None) for each in gpu.vfs))


def off(facts: HostFacts) -> HostFacts:
    domains = tuple(replace(each, state=DomainState.SHUTOFF) for each in facts.domains)
    return replace(facts, domains=domains)


def reboot(world: SimWorld) -> None:
    world.sim.inject("h1", ["reboot"])


def made(folder: Path, way: Way) -> SimWorld:
    """A world whose host restores its claims at boot."""
    world = SimWorld(folder, way.host)
    world.sim.host("h1").install()
    if way.layout is not None:
        world.cut(way.layout)
    while way.host.fabric and world.facts().fabric is None:
        world.engine.refresh()
    return world


# -- everything comes back --------------------------------------------------------------------


@pytest.mark.parametrize("name", WAYS)
def test_every_way_of_giving_a_gpu_comes_back(name: str, folder: Path) -> None:
    world = made(folder, WAYS[name])
    vms = tuple(replace(each, autostart=True) for each in WAYS[name].vms)
    world.apply(*vms)
    before, held = state(world.facts()), world.ledger.allocations()
    reboot(world)
    assert state(world.facts()) == before
    assert not world.engine.layout_plan(None).gpus
    assert world.engine.plan(vms).changes == 0
    assert world.ledger.allocations() == held
    world.delete(*(each.name for each in vms))
    assert {claim.wanted["kind"] for claim in world.facts().claims} <= {"layout"}
    world.close()


def test_vms_that_are_not_marked_stay_off_with_their_devices(folder: Path) -> None:
    world = made(folder, Way(host(A100), (), CARVED))
    world.apply(vm("declared", "3g.40gb"), vm("own", "1g.10gb"))
    before = state(world.facts())
    reboot(world)
    assert state(world.facts()) == off(before)
    world.engine.start(["declared", "own"]).raise_for_failure()
    assert state(world.facts()) == before
    world.close()


def test_a_made_instance_goes_with_its_vm_and_a_declared_one_stays(folder: Path) -> None:
    world = made(folder, Way(host(A100), (), CARVED))
    empty = state(world.facts())
    world.apply(vm("declared", "3g.40gb"), vm("own", "1g.10gb"))
    reboot(world)
    world.delete("declared", "own")
    assert state(world.facts()) == empty
    world.close()


def test_without_the_unit_a_boot_restores_nothing(folder: Path) -> None:
    world = made(folder, Way(host("A40"), (), ON))
    world.apply(vm("desk", "A40-8Q", autostart=True))
    world.sim.host("h1").uninstall()
    reboot(world)
    assert world.gpu().vfs == ()
    assert world.facts().domains[0].state is DomainState.SHUTOFF
    world.close()


def test_a_gpu_that_cannot_be_partitioned_keeps_no_other_away(folder: Path) -> None:
    """Its claims stay, and the controller mends it when the cause is gone."""
    world = made(folder, Way(host("A40", "L40S"), (), ON))
    world.apply(*(vm(f"vm-{n}", f"{board}-8Q") for n, board in enumerate(("A40", "L40S"))))
    before = state(world.facts())
    world.sim.host("h1").uninstall()
    reboot(world)
    world.sim.inject("h1", ["gpu", before.gpus[0].device, "client", "dcgm"])
    answer = world.hosts.open(world.ledger.host("h1")).helper.call("restore", {})
    failed = {each["unit"]: each["why"] for each in answer["failed"]}  # type: ignore[attr-defined]
    first = before.gpus[0].device
    assert "dcgm" in failed.pop(f"layout-{first}")
    assert set(failed.values()) == {f"the layout of {first} was not restored"}
    assert without_groups(world.gpu(1)) == before.gpus[1]
    world.sim.inject("h1", ["clear"])
    assert len(world.facts().claims) == len(before.claims)
    world.engine.layout_apply(None)[1].raise_for_failure()
    world.engine.start(["vm-0", "vm-1"]).raise_for_failure()
    assert state(world.facts()) == before
    world.close()


# -- layouts that a host does not keep --------------------------------------------------------


@pytest.fixture
def unkept(folder: Path) -> Iterator[SimWorld]:
    """A fleet of the version before: the ledger has the layout, the host does not."""
    world = made(folder, Way(host("A40"), (), ON))
    forget_layout(world)
    yield world
    world.close()


def forget_layout(world: SimWorld) -> None:
    [claim] = world.facts().claims
    presented = {"allocation": claim.allocation, "generation": claim.generation, "vm": claim.vm}
    helper = world.hosts.open(world.ledger.host("h1")).helper
    helper.call("layout_forget", {"gpu": claim.wanted["gpu"], "claim": presented})


def test_a_layout_that_is_not_kept_is_a_difference_and_written_by_apply(unkept: SimWorld) -> None:
    [change] = unkept.engine.layout_plan(None).gpus
    assert (change.differences, change.changes) == ((NOT_KEPT,), ())
    unkept.engine.layout_apply(None)[1].raise_for_failure()
    assert unkept.engine.layout_plan(None) == LayoutPlan(unchanged=1)
    [claim] = unkept.facts().claims
    assert (claim.generation, claim.vm) == (unkept.ledger.gpus()[0].generation, "cut")
    reboot(unkept)
    assert len(unkept.gpu().vfs) == 32


def test_it_keeps_no_vm_away(unkept: SimWorld) -> None:
    unkept.apply(vm("desk", "A40-8Q"))
    unkept.engine.layout_apply(None)[1].raise_for_failure()
    assert not unkept.supply().blocked


def test_a_helper_of_the_version_before_is_named_with_the_way_out(unkept: SimWorld) -> None:
    """Nothing was changed, so the GPU goes on taking VMs."""
    old = {name: verb for name, verb in dispatch.VERBS.items() if name != "layout_claim"}
    with mock.patch.object(dispatch, "VERBS", old):
        outcome = unkept.engine.layout_apply(None)[1]
        with pytest.raises(HostRefused, match="the helper on h1 is older") as caught:
            outcome.raise_for_failure()
        assert caught.value.next == "vgpumgr host upgrade h1"
        assert not unkept.supply().blocked
        with pytest.raises(HostRefused, match="is older"):
            unkept.cut(GpuLayout(vfs=0))
        assert len(unkept.gpu().vfs) == 32
    unkept.cut(ON)
    unkept.apply(vm("desk", "A40-8Q"))


def test_a_renamed_layout_is_kept_by_its_new_name(folder: Path) -> None:
    world = made(folder, Way(host("A40"), (), ON))
    renamed = LayoutSpec(name="desks", hosts=("h1",), rules=(LayoutRule(layout=ON),))
    world.engine.layout_apply([renamed])[1].raise_for_failure()
    assert [claim.vm for claim in world.facts().claims] == ["desks"]
    assert world.engine.layout_plan([renamed]) == LayoutPlan(unchanged=1)
    world.close()


def test_another_fleets_layout_is_refused_before_anything(folder: Path) -> None:
    world = made(folder, Way(host("A40"), (), ON))
    [claim] = world.facts().claims
    path = f"/var/lib/vgpumgr/claims/{claim.unit}.json"
    system = world.sim.host("h1").system
    system.store(path, system.read(path).replace(claim.fleet, "another-fleet"))
    with pytest.raises(Conflict, match="cannot be changed") as caught:
        world.cut(GpuLayout(vfs=0))
    assert "fleet another-fleet has a layout on it" in caught.value.why
    assert len(world.gpu().vfs) == 32
    world.close()


# -- as it is typed ---------------------------------------------------------------------------


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(sim_host("a40", ("A40", 2)), sim_host("t4", ("T4", 1)))
        yield found


def test_what_is_typed_after_a_reboot_is_nothing(cli: Cli) -> None:
    cut = {"kind": "Layout", "name": "cut", "hosts": ["a40"], "gpus": [{"vfs": "max"}]}
    cli.ok("layout", "apply", "-f", cli.documents(cut, name="cut.yaml"), "-y")
    marked = (
        {**vm_document("desk", "A40-8Q"), "autostart": True},
        {**vm_document("old", "T4-4Q"), "autostart": True},
    )
    file = cli.documents(*marked, vm_document("lab", "A40-4Q"))
    cli.ok("apply", "-f", file)
    for again in (("sim", "inject", "a40", "reboot"), ("sim", "down"), ("sim", "up")):
        cli.ok(*again)
    cli.ok("layout", "assert")
    cli.ok("diff", "-f", cli.documents(*marked))
    power = {item["name"]: item["power"] for item in cli.items("vm", "list", "--refresh")}
    assert power == {"desk": "running", "old": "running", "lab": "shutoff"}
    cli.ok("vm", "start", "lab")


def test_a_host_that_leaves_keeps_no_layout(cli: Cli) -> None:
    cut = {"kind": "Layout", "name": "cut", "hosts": ["a40"], "gpus": [{"vfs": "max"}]}
    file = cli.documents(cut, name="cut.yaml")
    cli.ok("layout", "apply", "-f", file, "-y")
    said = cli.ok("host", "remove", "a40", "-y").err
    assert (
        "a40 no longer restores layouts at boot: 0000:41:00.0, 0000:43:00.0 keep their partitioning"
        in said
    )
    cli.ok("host", "add", "a40", "--address", "sim://a40")
    assert {gpu["vfs"]["on"] for gpu in cli.items("gpu", "list", "--host", "a40")} == {32}
    assert NOT_KEPT in cli.fails(10, "layout", "assert", "-f", file).out
    cli.ok("sim", "inject", "a40", "reboot")
    cli.ok("host", "probe", "a40")
    assert {gpu["vfs"]["on"] for gpu in cli.items("gpu", "list", "--host", "a40")} == {0}


def test_a_helper_is_upgraded_and_its_version_read_back(cli: Cli) -> None:
    version = HELPER_VERSION
    assert f"a40: helper {version} → {version}" in cli.ok("host", "upgrade", "a40", "t4").err
    (row, _) = cli.ok("host", "list", "-o", "wide").rows
    assert row[-1] == version
    with mock.patch.object(host_items, "VERSION", "99"):
        shown = cli.ok("host", "list", "-o", "wide").out
    assert f"{version} (vgpumgr host upgrade a40)" in shown
    cli.fails(3, "host", "upgrade", "nowhere")
    cli.fails(2, "host", "upgrade")
    cli.ok("sim", "inject", "t4", "unreachable")
    cli.fails(6, "host", "upgrade", "t4")

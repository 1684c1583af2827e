"""What befalls VMs with GPUs: reboots of their hosts, lost partitioning, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.support import Cli, host_dumps, new_cli, until
from tests.e2e.support import host as sim_host
from tests.e2e.support import vm as vm_document
from tests.simworld import NEW, OLD, SimWorld, host, vm
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.host import HostFacts, HostRecord, Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.sim.sim_client import SimHosts

A100, PRO = "A100-PCIE-80GB", "RTX-PRO-6000-BSE"
SHARED = "RTX Pro 6000 Blackwell DC-1-2Q"
ON_VFS = GpuLayout(vfs=VFS_MAX)
MIXED = GpuLayout(vfs=VFS_MAX, mixed_size=True)
SLICES = GpuLayout(mig=True, vfs=VFS_MAX)
CARVED = replace(SLICES, instances=(InstanceGoal(profile="3g.40gb"),))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


def state(facts: HostFacts) -> HostFacts:
    """What a reboot and its way back must leave as it was; the kernel numbers groups anew."""
    mdevs = (replace(mdev, iommu_group=None) for mdev in facts.mdevs)
    return replace(facts, boot_id="", mdevs=tuple(sorted(mdevs, key=lambda each: each.uuid)))


def reboot(world: SimWorld) -> None:
    world.sim.inject("h1", ["reboot"])


def apply_again(world: SimWorld) -> None:
    """What was applied last, without a file."""
    world.engine.layout_apply(None)[1].raise_for_failure()


def start(world: SimWorld, *names: str) -> None:
    world.engine.start(names).raise_for_failure()


# -- a host that rebooted -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("board", "layout", "versions", "profiles"),
    [
        ("A40", ON_VFS, OLD, ("A40-8Q", "A40-8Q")),
        ("A40", ON_VFS, NEW, ("A40-8Q", "A40-8Q")),
        ("L40S", MIXED, NEW, ("L40S-16Q", "L40S-4Q")),
        (A100, SLICES, NEW, ("1g.10gb", "3g.40gb")),
        (A100, CARVED, NEW, ("3g.40gb", "2g.20gb")),
        ("FLEX-170", GpuLayout(vfs=4), NEW, ("FLEX-170-1of4", "FLEX-170-1of4")),
        ("UNLISTED-VF", GpuLayout(vfs=4), NEW, ("8086:10c9-1of4", "8086:10c9-1of4")),
        ("UNLISTED-VGPU", GpuLayout(vfs=4), NEW, ("LAB V16-4Q", "LAB V16-4Q")),
        ("UNLISTED-MIG", SLICES, NEW, ("1g.10gb", "3g.40gb")),
        ("UNLISTED-MIG", SLICES, OLD, ("1g.10gb", "3g.40gb")),
        ("UNLISTED-MIG", CARVED, NEW, ("3g.40gb", "2g.20gb")),
    ],
)
def test_the_layout_brings_the_vfs_back_and_start_the_same_devices(
    board: str,
    layout: GpuLayout,
    versions: Versions,
    profiles: tuple[str, ...],
    folder: Path,
) -> None:
    world = SimWorld(folder, host(board, versions=versions))
    world.cut(layout)
    world.apply(*(vm(f"vm-{number}", profile) for number, profile in enumerate(profiles)))
    before, held = state(world.facts()), world.ledger.allocations()
    reboot(world)
    with pytest.raises(Conflict, match="vm-0 cannot start") as refused:
        start(world, "vm-0")
    assert "VFs: 0 on" in refused.value.why
    assert refused.value.next.startswith("vgpumgr layout apply,")
    with pytest.raises(Conflict, match="vm-0 and 1 more cannot start"):
        world.apply(*(vm(f"vm-{number}", profile) for number, profile in enumerate(profiles)))
    apply_again(world)
    start(world, "vm-1", "vm-0")
    assert state(world.facts()) == before
    assert world.ledger.allocations() == held
    world.delete("vm-0", "vm-1")
    world.close()


def test_any_vm_of_a_shared_instance_may_be_the_first_back(folder: Path) -> None:
    """The VM whose creation made the GPU instance may stay off, or be gone."""
    world = SimWorld(folder, host(PRO))
    world.cut(SLICES)
    before = state(world.facts())
    world.apply(vm("first", SHARED))
    world.apply(vm("second", SHARED), vm("third", SHARED))
    reboot(world)
    apply_again(world)
    start(world, "third")
    world.delete("first")
    start(world, "second")
    assert len(world.gpu().mig.instances or ()) == 1
    world.delete("second", "third")
    assert state(world.facts()) == before
    world.close()


def test_a_declared_instance_comes_back_where_its_vm_lived(folder: Path) -> None:
    """The room left by others would let it begin elsewhere."""
    world = SimWorld(folder, host(A100))
    world.cut(replace(SLICES, instances=(InstanceGoal(profile="3g.40gb", start=4),)))
    world.apply(vm("ml", "3g.40gb"))
    reboot(world)
    world.cut(CARVED)
    assert [each.start for each in world.gpu().mig.instances or ()] == [4]
    start(world, "ml")
    world.close()


def test_a_declared_instance_that_is_gone_is_named(folder: Path) -> None:
    """Somebody turned the VFs on by hand after the reboot: half of the way back."""
    world = SimWorld(folder, host(A100))
    world.cut(CARVED)
    world.apply(vm("ml", "3g.40gb"), vm("own", "1g.10gb"))
    reboot(world)
    by_hand = world.hosts.open(world.ledger.host("h1")).helper
    by_hand.call("vfs_set", {"gpu": world.gpu().device, "count": 20})
    start(world, "own")
    with pytest.raises(Conflict, match="ml cannot start") as refused:
        start(world, "ml")
    assert "GPU instance 3g.40gb at 4: declared, not there" in refused.value.why
    apply_again(world)
    start(world, "ml")
    world.close()


@pytest.mark.parametrize(
    ("board", "layout", "profile", "other", "needs"),
    [
        ("A40", ON_VFS, "A40-8Q", MIXED, "mixed_size: false"),
        ("L40S", MIXED, "L40S-8Q", replace(ON_VFS, mixed_size=False), "mixed_size: true"),
        (A100, SLICES, "1g.10gb", replace(SLICES, mig=False), "mig: true"),
        (A100, CARVED, "3g.40gb", replace(SLICES, instances=()), "GPU instance at slice"),
        ("FLEX-170", GpuLayout(vfs=4), "FLEX-170-1of4", GpuLayout(vfs=8), "vfs: 4"),
    ],
)
def test_a_layout_that_the_lost_parts_do_not_fit_is_refused(
    board: str, layout: GpuLayout, profile: str, other: GpuLayout, needs: str, folder: Path
) -> None:
    world = SimWorld(folder, host(board))
    world.cut(layout)
    world.apply(vm("desk", profile))
    reboot(world)
    before = state(world.facts())
    with pytest.raises(Conflict, match="cannot be changed") as refused:
        world.cut(other)
    assert needs in refused.value.why
    assert "vgpumgr vm delete desk" in refused.value.next
    assert state(world.facts()) == before
    world.close()


def test_vms_of_a_rebooted_host_are_deleted_without_a_layout(folder: Path) -> None:
    world = SimWorld(folder, host("A40", A100, "L40S"))
    rules = [("A40", ON_VFS), (A100, SLICES), ("L40S", MIXED)]
    spec = LayoutSpec(
        name="cut",
        hosts=("h1",),
        rules=tuple(LayoutRule(layout=goal, models=(model,)) for model, goal in rules),
    )
    world.engine.layout_apply([spec])[1].raise_for_failure()
    before = state(world.facts())
    world.apply(vm("a", "A40-8Q"), vm("b", "1g.10gb"), vm("c", "L40S-8Q"))
    reboot(world)
    world.delete("a", "b", "c")
    assert world.ledger.allocations() == ()
    apply_again(world)
    assert state(world.facts()) == before
    world.close()


def test_a_guest_that_runs_still_stands_in_the_way(folder: Path) -> None:
    world = SimWorld(folder, host("A40"))
    world.cut(ON_VFS)
    world.apply(vm("desk", "A40-8Q"))
    with pytest.raises(Conflict, match="cannot be changed") as refused:
        world.cut(GpuLayout(vfs=0))
    assert "in use by desk" in refused.value.why
    world.close()


# -- what is said ---------------------------------------------------------------------------


def test_refusals_name_the_host_and_leave_out_what_was_never_meant(folder: Path) -> None:
    """A host may be called like a word of the sentence."""
    others = [host("A40", "T4", name=f"h{number}") for number in range(2, 5)]
    world = SimWorld(folder, host(A100, name="mig"), *others)
    with pytest.raises(NoPlacement) as refused:
        world.apply(vm("ml", "1g.10gb"))
    assert refused.value.why == (
        f"mig: {A100} 0000:41:00.0 could provide 1g.10gb with a layout: mig: true, vfs: max; "
        "and 6 more GPUs or hosts; "
        f"it fits with a layout for {A100} 0000:41:00.0 (mig: true, vfs: max), on mig"
    )
    assert refused.value.next.startswith("vgpumgr explain -f FILE --vm ml")
    world.close()


def test_the_limit_of_one_part_is_the_reason_for_both(folder: Path) -> None:
    """The driver takes a B-series vGPU alone in a VM, however much room there is."""
    world = SimWorld(folder, host("L40S"))
    world.cut(MIXED)
    with pytest.raises(NoPlacement, match="two cannot be placed") as refused:
        world.apply(vm("two", "L40S-3B", "L40S-8Q"))
    assert "L40S-3B on L40S 0000:41:00.0 allows 1 in one VM" in refused.value.why
    world.close()


def test_a_sentence_names_a_few_profiles_only(folder: Path) -> None:
    world = SimWorld(folder, host(PRO))
    world.cut(SLICES)
    with pytest.raises(NoPlacement) as refused:
        world.apply(vm("desk", "A40-8Q"))
    reason, _helps = refused.value.why.split("; ")
    assert reason.endswith(f"{SHARED.removesuffix('2Q')}3B and 39 more)")
    world.close()


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        versions = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2"}
        found.sim_up(
            sim_host("a40", ("A40", 1), versions={**versions, "driver": "580.105.06"}),
            sim_host("t4", ("T4", 1)),
        )
        hosts = SimHosts(found.state / "sim")
        for name in ("a40", "t4"):  # nothing there restores claims: the way back is by command
            hosts.open(HostRecord(name=name, address=f"sim://{name}")).installation.remove()
        hosts.close()
        yield found


def test_what_is_typed_after_a_reboot(cli: Cli) -> None:
    cut = {"kind": "Layout", "name": "cut", "hosts": ["a40"], "gpus": [{"vfs": "max"}]}
    assert "no GPU has a layout yet" in cli.fails(2, "layout", "apply", "-y").err
    cli.ok("layout", "apply", "-f", cli.documents(cut, name="cut.yaml"), "-y")
    empty = host_dumps(cli)
    file = cli.documents(vm_document("desk", "A40-8Q"), vm_document("old", "T4-4Q"))
    cli.ok("apply", "-f", file)
    for name in ("a40", "t4"):
        cli.ok("sim", "inject", name, "reboot")
    refused = cli.fails(4, "apply", "-f", file)
    assert "A40 0000:41:00.0: VFs: 0 on, wanted 32" in refused.err
    assert "next: vgpumgr layout apply, then the same command again" in refused.err
    assert "turn 32 VFs on" in cli.ok("layout", "plan").out
    cli.ok("layout", "apply", "-y")
    cli.ok("apply", "-f", file)
    assert {item["power"] for item in cli.items("vm", "list")} == {"running"}
    cli.ok("delete", "-f", file, "--force", "-y")
    rows = [(dump["hostname"], dump["gpus"], dump["kept"]) for dump in host_dumps(cli)]
    assert rows == [(dump["hostname"], dump["gpus"], dump["kept"]) for dump in empty]


def test_parts_are_listed_by_address(cli: Cli) -> None:
    gpus = [{"profile": "T4-1Q", "count": 4}]
    file = cli.documents({**vm_document("four"), "gpus": gpus})
    cli.ok("apply", "-f", file)
    devices = [part["device"] for part in cli.items("vm", "list")[0]["gpus"]]
    assert devices == sorted(devices)
    cli.ok("delete", "-f", file, "--force", "-y")


def test_one_host_without_its_layout_keeps_no_other_vm_off(cli: Cli) -> None:
    """``--partial`` starts what can be."""
    file = cli.documents(vm_document("desk", "A40-8Q"), vm_document("old", "T4-4Q"))
    cli.ok("apply", "-f", file)
    for name in ("a40", "t4"):
        cli.ok("sim", "inject", name, "reboot")
    cli.fails(7, "apply", "-f", file, "--partial")
    cli.ok("host", "probe")
    power = {item["name"]: item["power"] for item in cli.items("vm", "list")}
    assert power == {"desk": "shutoff", "old": "running"}
    cli.ok("layout", "apply", "-y")
    cli.ok("delete", "-f", file, "--force", "-y")


def test_a_lost_gpu_is_shown_as_lost_everywhere(cli: Cli) -> None:
    device = cli.items("gpu", "list", "--host", "a40")[0]["device"]
    cli.ok("sim", "inject", "a40", "gpu", device, "lost")
    until(lambda: "lost" in cli.ok("gpu", "list", "--host", "a40", "--refresh").out, "the loss")
    shown = cli.ok("gpu", "show", f"a40/{device}").out
    assert "State:        lost" in shown
    assert "Health:       lost: " in shown
    assert f"vgpumgr gpu show a40/{device}" in cli.fails(4, "layout", "plan").out
    cli.ok("sim", "inject", "a40", "clear")

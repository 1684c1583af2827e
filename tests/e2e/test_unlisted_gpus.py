"""GPUs that the catalogue does not hold, from the probe to the release: by their files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.support import Cli, new_cli
from tests.e2e.support import host as sim_host
from tests.e2e.support import vm as vm_document
from tests.e2e.test_every_way import fill_and_empty
from tests.simworld import NEW, OLD, SimWorld, host, vm
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.gpu import Framework
from vgpumgr.model.host import Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.sim_fleet import UNLISTED_MIG, UNLISTED_PLAIN, UNLISTED_VGPU

VERSIONS = {"kernel": NEW.kernel, "libvirt": NEW.libvirt, "qemu": NEW.qemu}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as user:
        yield user


@pytest.mark.parametrize(("vfs", "most"), [(4, 4), (VFS_MAX, 7)])
def test_plain_vfs(folder: Path, vfs: int, most: int) -> None:
    world = SimWorld(folder, host(UNLISTED_PLAIN))
    world.cut(GpuLayout(vfs=vfs))
    fill_and_empty(world, f"8086:10c9-1of{most}", most, Framework.PCI_VF)
    world.close()


@pytest.mark.parametrize(
    ("profile", "most"), [("LAB V16-1Q", 7), ("LAB V16-4Q", 4), ("LAB V16-16Q", 1)]
)
def test_vfs_that_carry_vgpus(folder: Path, profile: str, most: int) -> None:
    """Seven VFs share 16 GiB."""
    world = SimWorld(folder, host(UNLISTED_VGPU))
    world.cut(GpuLayout(vfs=VFS_MAX))
    fill_and_empty(world, profile, most, Framework.VFIO_VF)
    world.close()


@pytest.mark.parametrize(
    ("versions", "framework"),
    [(NEW, Framework.VFIO_VF), (OLD, Framework.MDEV)],
    ids=["6.12", "6.1"],
)
@pytest.mark.parametrize(
    ("profile", "most"), [("1g.10gb", 7), ("1g.10gb+me", 1), ("LAB M80-2-20C", 3), ("3g.40gb", 2)]
)
def test_vgpus_in_gpu_instances(
    folder: Path, versions: Versions, framework: Framework, profile: str, most: int
) -> None:
    world = SimWorld(folder, host(UNLISTED_MIG, versions=versions))
    world.cut(GpuLayout(mig=True, vfs=VFS_MAX))
    fill_and_empty(world, profile, most, framework)
    world.close()


def test_vgpus_of_one_size_mix_and_others_are_refused_before_the_driver_is_asked(
    folder: Path,
) -> None:
    world = SimWorld(folder, host(UNLISTED_VGPU))
    world.cut(GpuLayout(vfs=4))
    world.apply(vm("a", "LAB V16-2Q"), vm("b", "LAB V16-2A"))
    with pytest.raises(NoPlacement) as refused:
        world.apply(vm("c", "LAB V16-4Q"))
    assert "holds 2 GiB vGPUs" in refused.value.why
    world.delete("a", "b")
    world.apply(vm("c", "LAB V16-4Q"))
    world.close()


def test_the_whole_function_is_given_without_vfs(folder: Path) -> None:
    world = SimWorld(folder, host(UNLISTED_PLAIN, UNLISTED_VGPU))
    fill_and_empty(world, "passthrough", 2, Framework.PASSTHROUGH)
    world.close()


def test_a_user_writes_what_the_hosts_told(cli: Cli) -> None:
    cli.sim_up(sim_host("h1", (UNLISTED_PLAIN, 1), (UNLISTED_VGPU, 1), versions=VERSIONS))
    unknown = cli.fails(2, "apply", "-f", cli.documents(vm_document("a", "LAB V16-4Q")))
    assert "neither the catalogue nor a probed host" in unknown.err
    layout = {
        "kind": "Layout", "name": "cut", "hosts": ["h1"], "gpus": [{"vfs": 4}],
    }  # fmt: skip
    cli.ok("layout", "apply", "-f", cli.documents(layout, name="layout.yaml"), "-y")
    cli.ok("host", "probe", "h1")
    wanted = cli.documents(vm_document("a", "LAB V16-4Q"), vm_document("b", "8086:10c9-1of4"))
    cli.ok("apply", "-f", wanted)
    assert {each["name"] for each in cli.items("vm", "list")} == {"a", "b"}
    near = cli.fails(2, "apply", "-f", cli.documents(vm_document("c", "LAB V16-4q")))
    assert "did you mean" in near.err
    cli.ok("vm", "delete", "a", "b", "-y", "--force")


def test_mig_is_cut_as_another_tools_file_says_and_outlives_a_reboot(cli: Cli) -> None:
    cli.sim_up(sim_host("h1", ("UNLISTED-MIG", 1)))
    entry = {
        "device-filter": "0xFFF010DE", "devices": "all",
        "mig-enabled": True, "mig-devices": {"3g.40gb": 1, "1g.10gb": 2},
    }  # fmt: skip
    theirs = cli.file(yaml.safe_dump({"version": "v1", "mig-configs": {"cut": [entry]}}), "t.yaml")
    ours = cli.file(cli.ok("layout", "import", theirs, "--host", "h1").out, "ours.yaml")
    cli.ok("layout", "apply", "-f", ours, "-y")
    assert places(cli) == {("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb", 1)}
    cli.ok("layout", "assert", "-f", ours)
    written = cli.file(cli.ok("layout", "export", "h1", "--format", "mig-parted").out, "w.yaml")
    again = cli.file(cli.ok("layout", "import", written, "--host", "h1").out, "again.yaml")
    cli.ok("layout", "apply", "-f", again, "-y")
    assert places(cli) == {("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb", 1)}
    cli.ok("sim", "inject", "h1", "reboot")
    cli.ok("host", "probe", "h1")
    assert places(cli) == {("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb", 1)}
    cli.ok("layout", "assert", "-f", again)


def test_vgpus_in_its_gpu_instances_from_the_layout_through_a_reboot_to_the_end(cli: Cli) -> None:
    """By a type's name, and by the name of the MIG profile that it has to itself."""
    cli.sim_up(sim_host("h1", ("UNLISTED-MIG", 1), versions=VERSIONS))
    document = cli.documents(vm_document("a", "LAB M80-3-40C"), vm_document("b", "1g.10gb"))
    assert "with a layout: mig: true, vfs: max" in cli.fails(5, "explain", "-f", document).out
    layout = {
        "kind": "Layout", "name": "cut", "hosts": ["h1"],
        "gpus": [{"model": "10de:fff0", "mig": True, "vfs": "max"}],
    }  # fmt: skip
    cli.ok("layout", "apply", "-f", cli.documents(layout, name="layout.yaml"), "-y")
    cli.ok("host", "probe", "h1")
    assert free(cli)["1g.10gb"] == 7
    cli.ok("apply", "-f", document)
    held = {("3g.40gb", 4), ("1g.10gb", 0)}
    assert (states(cli), places(cli)) == ({"a": "active", "b": "active"}, held)
    left = free(cli)
    assert (left["1g.10gb"], left["3g.40gb"], left.get("7g.80gb", 0)) == (3, 0, 0)
    shown = cli.ok("gpu", "show", cli.items("gpu", "list")[0]["name"]).out
    assert "3g.40gb at 4" in shown
    assert "which vGPUs" not in shown
    cli.ok("drift")
    cli.ok("sim", "inject", "h1", "reboot")
    cli.ok("layout", "apply", "-y")
    cli.ok("vm", "start", "a", "b")
    assert (states(cli), places(cli)) == ({"a": "active", "b": "active"}, held)
    cli.ok("vm", "delete", "a", "b", "-y", "--force")
    assert places(cli) == set()
    assert free(cli)["1g.10gb"] == 7


def test_a_profile_that_its_driver_does_not_tell_is_refused_with_those_it_tells(cli: Cli) -> None:
    cli.sim_up(sim_host("h1", ("UNLISTED-MIG", 1)))
    layout = {
        "kind": "Layout", "name": "cut", "hosts": ["h1"],
        "gpus": [{"model": "10de:fff0", "instances": [{"profile": "1g.12gb"}]}],
    }  # fmt: skip
    plan = cli("layout", "plan", "-f", cli.documents(layout, name="layout.yaml"))
    assert "has no MIG profile 1g.12gb" in plan.out + plan.err
    assert "1g.10gb" in plan.out + plan.err


def states(cli: Cli) -> dict[str, str]:
    """The state of every VM."""
    return {each["name"]: each["state"] for each in cli.items("vm", "list")}


def free(cli: Cli) -> dict[str, int]:
    """How many more of each profile the fleet makes."""
    return {each["name"]: each["fits"] for each in cli.items("capacity")}


def places(cli: Cli) -> set[tuple[str, int]]:
    """The GPU instances of the only GPU, by profile and place."""
    [gpu] = cli.items("gpu", "list")
    return {(each["profile"], each["start"]) for each in gpu["mig"]["instances"]}

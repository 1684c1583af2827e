"""GPUs that the catalogue does not hold, from the probe to the release: by their files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, new_cli
from tests.e2e.support import host as sim_host
from tests.e2e.support import vm as vm_document
from tests.e2e.test_every_way import fill_and_empty
from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.gpu import Framework
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.simulated import UNLISTED_PLAIN, UNLISTED_VGPU

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

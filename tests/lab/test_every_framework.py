"""One VM for every way of giving a GPU, at the same time on one host, by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.labhost import LabHost, Vgpumgr

pytestmark = [pytest.mark.lab, pytest.mark.bounded, pytest.mark.timeout(1800)]

PLAIN, TYPED = "0000:04:00.0", "0000:05:00.0"
WAYS = {
    "sample": {"profile": "mtty-1"},
    "vendor": {"profile": "lab-701"},
    "typed": {"profile": "LAB V16-4Q"},
    "plain": {"profile": "8086:10c9-1of2"},
    "whole": {"profile": "passthrough", "model": "1234:1111"},
}
FRAMEWORKS = {
    "sample": "mdev", "vendor": "mdev", "typed": "vfio-vf", "plain": "pci-vf",
    "whole": "passthrough",
}  # fmt: skip


@pytest.fixture
def partitioned(lab: LabHost, vgpumgr: Vgpumgr, tmp_path: Path) -> Iterator[None]:
    """VFs on, by a layout; off again afterwards."""
    apply_layout(vgpumgr, lab, tmp_path, {PLAIN: 2, TYPED: 7})
    yield
    vgpumgr.delete_all()
    apply_layout(vgpumgr, lab, tmp_path, {PLAIN: 0, TYPED: 0})


def apply_layout(vgpumgr: Vgpumgr, lab: LabHost, folder: Path, vfs: dict[str, int]) -> None:
    rules = [{"devices": [device], "vfs": count} for device, count in vfs.items()]
    document = {"apiVersion": "vgpumgr/v1", "kind": "Layout", "name": "all", "hosts": [lab.name]}
    path = folder / "layout.yaml"
    path.write_text(json.dumps({**document, "gpus": rules}))
    vgpumgr("layout", "apply", "-f", str(path), "-y")
    vgpumgr("layout", "assert", "-f", str(path))


@pytest.mark.usefixtures("partitioned")
def test_a_vm_of_each_runs_with_its_device_and_gives_it_back(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    cut = lab.dump()
    file = vgpumgr.file(
        *({"name": name, "gpus": [gpu], "memory": "128MiB"} for name, gpu in WAYS.items())
    )
    vgpumgr("apply", "-f", file)
    vms = vgpumgr.vms()
    assert {name: vm["gpus"][0]["framework"] for name, vm in vms.items()} == FRAMEWORKS
    assert set(lab.virsh("list --name").split()) == set(WAYS)
    for name, vm in vms.items():
        assert lab.vfio_groups_of(name) == {lab.group_of(vm["gpus"][0]["device"])}, name
    typed = vms["typed"]["gpus"][0]["device"]
    assert lab.root(f"cat /sys/bus/pci/devices/{typed}/nvidia/current_vgpu_type") == "803"
    assert "nothing to change" in vgpumgr("apply", "-f", file).out
    vgpumgr("drift")

    vgpumgr("delete", "-f", file, "-y", "--force")
    assert lab.settled(cut) == cut

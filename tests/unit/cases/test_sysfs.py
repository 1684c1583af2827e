"""Sysfs trees of other hosts (tests/cases/sysfs), probed by the real helper, as HostFacts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.system import System
from vgpumgr.hosts.facts.host_facts import assemble
from vgpumgr.model.gpu import GpuFacts, Mdev, VendorVgpu
from vgpumgr.model.host import HostFacts

CASES = Path(__file__).parents[2] / "cases"
MDEV = "4b20d080-1b54-4048-85b3-a6a62d165c01"


class Tree(System):
    """A folder as the host's root; no program and no NVML."""

    def run(self, argv: Sequence[str], timeout: float) -> tuple[int, str]:
        raise FileNotFoundError(argv[0])

    def nvml(self) -> Any:
        return None


def probed(name: str, root: Path) -> HostFacts:
    """The facts of a tree, made below ``root``."""
    tree = json.loads((CASES / "sysfs" / f"{name}.json").read_text())
    assert tree["origin"]
    for path, text in tree["files"].items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for path, target in tree["links"].items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    answer = handle({"verb": "probe", "args": {}}, Tree(str(root)))
    assert answer["ok"], answer
    return assemble(name, json.loads(json.dumps(answer["result"])))


def only(facts: HostFacts) -> GpuFacts:
    """The one GPU of a host: no virtual function is a GPU of its own."""
    (gpu,) = facts.gpus
    return gpu


def test_a_t4_with_mdevs_on_the_pf(tmp_path: Path) -> None:
    facts = probed("t4-mdev-on-pf", tmp_path)
    t4 = only(facts)
    assert (t4.model, t4.device, t4.driver) == ("T4", "0000:41:00.0", "nvidia")
    assert (t4.iommu_group, t4.group_devices) == (12, ("0000:41:00.0",))
    assert (t4.numa_node, t4.reset_methods) == (0, ("flr", "bus"))
    assert (t4.sriov_total, t4.vfs, len(t4.mdev_types)) == (0, (), 17)
    free = {each.profile: each.available for each in t4.mdev_types}
    assert (free["T4-4Q"], free["T4-4C"], free["T4-8Q"], free["T4-1B"]) == (3, 3, 0, 0)
    captured = next(each for each in t4.mdev_types if each.type_id == "nvidia-232")
    assert captured.description == (
        "num_heads=4, frl_config=60, framebuffer=4096M, max_resolution=7680x4320, max_instance=4"
    )
    assert facts.mdevs == (
        Mdev(uuid=MDEV, parent="0000:41:00.0", type_id="nvidia-232", iommu_group=77),
    )
    assert facts.foreign_mdev_definitions == (MDEV, "83c32df7-d52e-4ec1-9668-1f3c7e4df107")


def test_an_a2_with_mdevs_on_sixteen_vfs(tmp_path: Path) -> None:
    facts = probed("a2-mdev-on-vfs", tmp_path)
    a2 = only(facts)
    assert (a2.model, a2.sriov_total, len(a2.vfs), a2.mdev_types) == ("A2", 16, 16, ())
    assert [vf.number for vf in a2.vfs] == list(range(16))
    first, last = a2.vfs[0], a2.vfs[15]
    assert (first.address, last.address) == ("0000:08:00.4", "0000:08:02.3")
    assert (first.driver, first.iommu_group, first.reset_methods) == ("nvidia", 100, ("flr",))
    assert all(vf.vendor is None for vf in a2.vfs)
    assert {each.profile: each.available for each in first.mdev_types} == {
        "A2-1Q": 0,
        "A2-4Q": 0,
        "A2-4C": 0,
    }
    assert {each.profile: each.available for each in last.mdev_types} == {
        "A2-1Q": 0,
        "A2-4Q": 1,
        "A2-4C": 1,
    }
    assert [(each.parent, each.type_id) for each in facts.mdevs] == [
        ("0000:08:00.5", "nvidia-754"),
        ("0000:08:00.4", "nvidia-746"),
    ]


def test_an_l40s_with_types_written_to_its_vfs(tmp_path: Path) -> None:
    l40s = only(probed("l40s-vendor-vfs", tmp_path))
    assert (l40s.model, l40s.siblings) == ("L40S", ("0000:26:00.1",))
    assert l40s.group_devices == ("0000:26:00.0", "0000:26:00.1")
    assert [vf.vendor for vf in l40s.vfs] == [
        VendorVgpu(creatable=(1145, 1147, 1150), type_id=0),
        VendorVgpu(creatable=(), type_id=1147, placement_id=0),
    ]
    assert all(vf.mdev_types == () for vf in l40s.vfs)


def test_an_mi300x_whose_driver_made_eight_plain_vfs(tmp_path: Path) -> None:
    mi300x = only(probed("mi300x-gim-vfs", tmp_path))
    assert (mi300x.model, mi300x.driver, mi300x.sriov_total) == ("MI300X", "gim", 8)
    assert [vf.driver for vf in mi300x.vfs] == ["vfio-pci", *[None] * 7]
    assert all(vf.vendor is None and vf.mdev_types == () for vf in mi300x.vfs)


def test_network_functions_and_their_vfs_are_no_gpus(tmp_path: Path) -> None:
    assert probed("igb-vfs", tmp_path).gpus == ()


def test_what_a_tree_lacks_is_named_and_never_guessed(tmp_path: Path) -> None:
    facts = probed("t4-mdev-on-pf", tmp_path)
    assert {"boot_id", "cpus", "memory_mib", "nvml"} <= {each.part for each in facts.unknown}
    t4 = only(facts)
    assert (t4.uuid, t4.memory_mib, t4.mig, t4.mixed_size) == (None, None, None, None)


NODEDEVS = {
    "pci_0000_41_00_0": "t4-mdev-on-pf",
    f"mdev_{MDEV.replace('-', '_')}_0000_41_00_0": "t4-mdev-on-pf",
    "pci_0000_26_00_0": "l40s-vendor-vfs",
    "pci_0000_26_00_4": "l40s-vendor-vfs",
}


@pytest.mark.parametrize(("name", "tree"), NODEDEVS.items())
def test_a_probe_shows_what_libvirt_lists_as_a_node_device(
    name: str, tree: str, tmp_path: Path
) -> None:
    device = etree.fromstring((CASES / "nodedev" / f"{name}.xml").read_bytes())
    facts = probed(tree, tmp_path)
    shown = {each.uuid: each for each in facts.mdevs}
    if uuid := device.findtext("capability/uuid"):
        parent = (device.findtext("parent") or "").removeprefix("pci_").replace("_", ":", 2)
        assert shown[uuid].parent == parent.replace("_", ".")
        assert shown[uuid].type_id == _named(device, "capability/type", "id")
        assert str(shown[uuid].iommu_group) == _named(device, "capability/iommuGroup", "number")
        return
    address = _address(device.find("capability"))
    gpu = only(facts)
    if device.find("capability/capability[@type='phys_function']") is not None:
        group = next(vf.iommu_group for vf in gpu.vfs if vf.address == address)
    else:
        assert gpu.device == address
        group = gpu.iommu_group
        vfs = device.iterfind("capability/capability[@type='virt_functions']/address")
        assert [vf.address for vf in gpu.vfs] == [_address(each) for each in vfs]
        for kind in device.iterfind("capability/capability[@type='mdev_types']/type"):
            ours = next(each for each in gpu.mdev_types if each.type_id == kind.get("id"))
            assert (ours.name, str(ours.available)) == (
                kind.findtext("name"),
                kind.findtext("availableInstances"),
            )
    assert str(group) == _named(device, "capability/iommuGroup", "number")


def _named(device: Any, path: str, name: str) -> str:
    """An attribute of the one element there."""
    return str(device.find(path).get(name))


def _address(element: Any) -> str:
    """A PCI address from children in decimal, or from attributes in hexadecimal."""
    parts = [
        int(element.get(part) or element.findtext(part), 0)
        for part in ("domain", "bus", "slot", "function")
    ]
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*parts)


def test_every_case_is_read_by_a_test() -> None:
    here = Path(__file__).parents[1]
    tests = "".join(each.read_text() for each in here.rglob("test_*.py"))
    for folder in ("sysfs", "nodedev", "domains", "layouts"):
        for case in (CASES / folder).iterdir():
            assert case.stem in tests or case.stem in NODEDEVS, case

"""The helper's probe answer becomes HostFacts; what makes no sense is named."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from vgpumgr.hosts.facts import assemble
from vgpumgr.hosts.reached import ReachedHost
from vgpumgr.model.errors import HostUnreachable, NotPermitted, OutcomeUnknown
from vgpumgr.model.host import ClaimFacts, NumaNode, UnknownPart

T4 = {
    "address": "0000:41:00.0", "path": "/sys/devices/pci0000:40/0000:41:00.0", "class": "030200",
    "vendor": "10de", "device": "1eb8", "subsystem": "10de:12a2", "numa_node": 0,
    "driver": "nvidia", "driver_override": None, "iommu_group": 12,
    "group_devices": ["0000:41:00.0"], "boot_vga": False, "reset_methods": ["flr"],
    "sriov": {"total": 16, "num": 0, "vfs": []},
}  # fmt: skip
BOCHS = {
    "address": "0000:01:00.0", "path": "/sys/devices/pci0000:00/0000:01:00.0", "class": "038000",
    "vendor": "1234", "device": "1111", "subsystem": "1af4:1100", "numa_node": -1, "driver": None,
    "iommu_group": None, "group_devices": [], "boot_vga": True, "reset_methods": [], "sriov": None,
}  # fmt: skip
TYPE = {
    "id": "nvidia-232", "name": "GRID T4-4Q", "available": 4, "device_api": "vfio-pci",
    "description": "num_heads=4",
}  # fmt: skip
MTTY = {"id": "mtty-1", "name": "Single port serial", "available": None}
PROBE: dict[str, Any] = {
    "helper": "1", "hostname": "h1", "boot_id": "b-1", "kernel": "6.1.0-37-amd64",
    "python": "3.11.2", "qemu": "7.2.22", "cpus": 2, "memory_mib": 64000, "iommu": True,
    "kvm": False, "root": True,
    "numa": [{"node": 0, "cpus": [0, 1], "memory_mib": 32000,
              "hugepages": [{"size_kib": 2048, "total": 8, "free": 3}]}],
    "bridges": ["br0"],
    "devices": [T4, BOCHS],
    "parents": [{"name": "0000:41:00.0", "path": T4["path"], "types": [TYPE]},
                {"name": "mtty", "path": "/sys/devices/virtual/mtty/mtty", "types": [MTTY]}],
    "mdevs": [{"uuid": "u-1", "parent": "0000:41:00.0", "type": "nvidia-232", "iommu_group": 77}],
    "mdevctl": ["u-2"],
    "nvml": {"driver": "550.54.16", "gpus": [{"address": "00000000:41:00.0", "uuid": "GPU-1",
             "serial": "s-1", "name": "Tesla T4", "memory_mib": 15360}]},
    "claims": [{"unit": "mdev-u-1", "fleet": "f", "epoch": 3, "allocation": "a", "generation": 2,
                "vm": "v", "wanted": {"kind": "mdev"}}],
    "epoch": 3, "unknown": [{"part": "kvm", "why": "never tried"}], "new_in_some_later_helper": 1,
}  # fmt: skip


def test_every_part_of_the_answer_is_kept() -> None:
    facts = assemble("h1", json.loads(json.dumps(PROBE)), libvirt_version="9.0.0")
    assert (facts.host, facts.hostname, facts.boot_id) == ("h1", "h1", "b-1")
    assert (facts.cpus, facts.memory_mib, facts.iommu, facts.kvm) == (2, 64000, True, False)
    versions = facts.versions
    assert (versions.kernel, versions.libvirt) == ("6.1.0-37-amd64", "9.0.0")
    assert (versions.qemu, versions.driver, versions.helper) == ("7.2.22", "550.54.16", "1")
    assert facts.numa == (NumaNode(id=0, cpus=(0, 1), memory_mib=32000, hugepages_free={2048: 3}),)
    assert facts.claims == (
        ClaimFacts(
            unit="mdev-u-1", fleet="f", epoch=3, allocation="a", generation=2, vm="v",
            wanted={"kind": "mdev"},
        ),
    )  # fmt: skip
    assert facts.mdevs[0].type_id == "nvidia-232"
    assert (facts.bridges, facts.foreign_mdev_definitions) == (("br0",), ("u-2",))
    assert facts.unknown == (UnknownPart(part="kvm", why="never tried"),)


def test_a_board_of_the_catalogue_is_named_and_joined_with_nvml_and_its_types() -> None:
    t4 = assemble("h1", PROBE).gpus[0]
    assert (t4.device, t4.model, t4.vendor_device) == ("0000:41:00.0", "T4", "10de:1eb8")
    assert (t4.uuid, t4.serial, t4.memory_mib) == ("GPU-1", "s-1", 15360)
    assert (t4.driver, t4.numa_node, t4.iommu_group) == ("nvidia", 0, 12)
    (t4_4q,) = t4.mdev_types
    assert (t4_4q.type_id, t4_4q.profile, t4_4q.available) == ("nvidia-232", "T4-4Q", 4)


def test_an_unknown_device_is_called_by_its_pci_id_and_unread_things_stay_none() -> None:
    bochs = assemble("h1", PROBE).gpus[1]
    assert bochs.model == "1234:1111"
    assert (bochs.driver, bochs.numa_node, bochs.iommu_group) == (None, None, None)
    assert (bochs.uuid, bochs.memory_mib, bochs.boot_vga) == (None, None, True)


def test_a_virtual_parent_is_a_gpu_of_its_own_name() -> None:
    mtty = assemble("h1", PROBE).gpus[2]
    assert (mtty.device, mtty.model, mtty.address) == ("mtty", "mtty", None)
    assert mtty.mdev_types[0].available is None


def test_a_virtual_function_that_is_a_parent_is_no_gpu_of_its_own() -> None:
    probe = copy.deepcopy(PROBE)
    probe["devices"][0]["sriov"] = {"total": 16, "num": 1, "vfs": ["0000:41:00.4"]}
    probe["parents"][0]["name"] = "0000:41:00.4"
    assert [gpu.device for gpu in assemble("h1", probe).gpus] == [
        "0000:41:00.0",
        "0000:01:00.0",
        "mtty",
    ]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("cpus", "two"),
        ("cpus", True),
        ("numa", {}),
        ("numa", [{"cpus": ["0"]}]),
        ("devices", [7]),
        ("devices", [{"iommu_group": "x"}]),
        ("nvml", []),
        ("parents", [{"types": [{"available": "4"}]}]),
        ("claims", [{"wanted": "mdev"}]),
        ("unknown", ["nvml"]),
    ],
)
def test_a_malformed_part_is_named(part: str, value: object) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        assemble("h1", {**PROBE, part: value})
    assert caught.value.why.startswith(part)


def test_an_empty_answer_reads_as_nothing_known() -> None:
    facts = assemble("h1", {})
    assert (facts.gpus, facts.cpus, facts.versions.driver) == ((), 0, "")


class _Helper:
    """A helper whose KVM verdict is ``kvm``; None = it refuses to try."""

    def __init__(self, kvm: bool | None = None) -> None:
        self.kvm = kvm

    def call(self, verb: str, args: object) -> dict[str, object]:
        assert args == {}
        if verb == "probe":
            return PROBE
        if self.kvm is None:
            raise NotPermitted("no sudo rule")
        return {"kvm": self.kvm, "why": ""}


def _absent() -> Any:
    raise HostUnreachable("cannot connect to libvirt", why="no socket")


def test_a_host_without_libvirt_is_probed_in_part() -> None:
    facts = ReachedHost("h1", _Helper(), _absent).probe()
    assert facts.unknown[-1] == UnknownPart(part="libvirt", why="no socket")
    assert facts.versions.libvirt == "" and len(facts.gpus) == 3


@pytest.mark.parametrize("kvm", [True, False])
def test_kvm_that_was_never_tried_is_tried_at_the_probe(kvm: bool) -> None:
    facts = ReachedHost("h1", _Helper(kvm), _absent).probe()
    assert facts.kvm is kvm
    assert [part.part for part in facts.unknown] == ["libvirt"]


def test_kvm_that_cannot_be_tried_stays_unknown() -> None:
    facts = ReachedHost("h1", _Helper(None), _absent).probe()
    assert [part.part for part in facts.unknown] == ["kvm", "libvirt"]

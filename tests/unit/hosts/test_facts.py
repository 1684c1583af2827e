"""The helper's probe answer becomes HostFacts; what makes no sense is named."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from vgpumgr.hosts.facts.host_facts import LibvirtLists, assemble
from vgpumgr.hosts.reached_host import ReachedHost
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.errors import HostUnreachable, NotPermitted, OutcomeUnknown
from vgpumgr.model.gpu import (
    ComputeInstance,
    GpuFacts,
    GpuHealth,
    GpuInstance,
    MigFacts,
    MigProfile,
    MigType,
    VendorVgpu,
    VfFacts,
)
from vgpumgr.model.health import GpuReadings, PcieLink, XidLine
from vgpumgr.model.host import (
    ClaimFacts,
    FabricFacts,
    FabricPartitionFacts,
    NumaNode,
    StoragePool,
    UnknownPart,
)

T4 = {
    "address": "0000:41:00.0", "path": "/sys/devices/pci0000:40/0000:41:00.0", "class": "030200",
    "vendor": "10de", "device": "1eb8", "subsystem": "10de:12a2", "numa_node": 0,
    "driver": "nvidia", "driver_override": None, "iommu_group": 12,
    "group_devices": ["0000:41:00.0"], "boot_vga": False, "reset_methods": ["flr"],
    "siblings": [], "sriov": {"total": 16, "num": 0, "vfs": []},
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
    "features": ["tpm"],
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
    facts = assemble("h1", json.loads(json.dumps(PROBE)), LibvirtLists(version="9.0.0"))
    assert (facts.host, facts.hostname, facts.boot_id) == ("h1", "h1", "b-1")
    assert (facts.cpus, facts.memory_mib, facts.iommu, facts.kvm) == (2, 64000, True, False)
    versions = facts.versions
    assert (versions.kernel, versions.libvirt) == ("6.1.0-37-amd64", "9.0.0")
    assert (versions.qemu, versions.driver, versions.helper) == ("7.2.22", "550.54.16", "1")
    assert facts.numa == (
        NumaNode(
            id=0, cpus=(0, 1), memory_mib=32000, hugepages_free={2048: 3}, hugepages_total={2048: 8}
        ),
    )
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
    vf = {"number": 0, "address": "0000:41:00.4", "vgpu": None}
    probe["devices"][0]["sriov"] = {"total": 16, "num": 1, "vfs": [vf]}
    probe["parents"][0]["name"] = "0000:41:00.4"
    (function,) = assemble("h1", probe).gpus[0].vfs
    assert [each.type_id for each in function.mdev_types] == ["nvidia-232"]
    assert assemble("h1", probe).gpus[0].mdev_types == ()
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
        ("hugepage_kib", 0),
        ("hugepage_kib", 2**60),
        ("numa", {}),
        ("numa", [{"cpus": ["0"]}]),
        ("devices", [7]),
        ("devices", [{"iommu_group": "x"}]),
        ("nvml", []),
        ("parents", [{"types": [{"available": "4"}]}]),
        ("claims", [{"wanted": "mdev"}]),
        ("unknown", ["nvml"]),
        ("devices", [{"link": {"width": "x16"}}]),
        ("xids", [{"seq": 1, "xid": 79, "address": "41:00"}]),
        ("xids", [{"seq": -1, "xid": 79, "address": "0000:41:00.0"}]),
        ("xids", [{"seq": 1, "xid": 79, "address": "0000:41:00.0"}] * 2),
        ("devices", [{"siblings": ["0000:41:00.1"]}]),
        ("devices", [{"sriov": {"vfs": ["0000:41:00.4"]}}]),
        ("devices", [{"sriov": {"vfs": [{"vgpu": {"creatable": ["1145"]}}]}}]),
        ("cpu_model", 7),
        ("fabric", {"partitions": [{"gpus": [1]}]}),
        ("fabric", []),
    ],
)
def test_a_malformed_part_is_named(part: str, value: object) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        assemble("h1", {**PROBE, part: value})
    assert f"cannot be understood: {part}" in caught.value.message


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("mig", []),
        ("mig", {"enabled": 1}),
        ("mig", {"enabled": True, "pending": True, "instances": [{"start": "0"}]}),
        ("mixed_size", "off"),
        ("module_id", "3"),
        ("health", 1),
        ("health", "poorly"),
        ("readings", []),
        ("readings", {"recovery_action": -1}),
        ("readings", {"rows": {"pending": 1}}),
        ("readings", {"slowed": "hw-thermal"}),
    ],
)
def test_a_malformed_answer_of_nvml_is_named(part: str, value: object) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        assemble("h1", with_nvml({part: value}))
    assert "cannot be understood: nvml.gpus" in caught.value.message
    assert part in caught.value.message


def with_nvml(more: dict[str, Any], device: dict[str, Any] | None = None) -> dict[str, Any]:
    """The probe with these NVML fields of the T4, or of another function at its address."""
    probe = copy.deepcopy(PROBE)
    probe["nvml"]["gpus"][0] |= more
    probe["devices"][0] |= device or {}
    return probe


A100 = {"device": "20b5", "subsystem": "10de:1533"}


def gpu(more: dict[str, Any], device: dict[str, Any] | None = None) -> GpuFacts:
    """The first GPU of such a probe."""
    return assemble("h1", with_nvml(more, device)).gpus[0]


def test_what_nvml_says_of_a_gpu_is_kept() -> None:
    found = gpu(
        {
            "health": "reset-required", "health_detail": "remapped rows", "ecc": True,
            "module_id": 3, "fabric_state": "completed", "nvlinks": 18, "mixed_size": False,
            "scheduler": "equal-share", "vgpu_capabilities": ["mixed-size", "mini-quarter"],
        }
    )  # fmt: skip
    assert (found.health, found.health_detail) == (GpuHealth.RESET_REQUIRED, "remapped rows")
    assert (found.ecc, found.module_id, found.nvlinks) == (True, 3, 18)
    assert (found.fabric_state, found.mixed_size) == ("completed", False)
    assert found.scheduler == "equal-share"
    assert found.vgpu_capabilities == ("mixed-size", "mini-quarter")


def test_what_is_read_against_a_gpu_is_kept() -> None:
    read = {
        "recovery_action": 1, "uncorrected_errors": 2,
        "rows": {"corrected": 3, "uncorrected": 4, "pending": True, "failed": True},
        "pages": {"corrected": 5, "uncorrected": 6, "pending": True},
        "sram_exceeded": True, "slowed": ["hw-thermal"],
        "link_generation": {"now": 1, "most": 4},
    }  # fmt: skip
    found = gpu({"readings": read}, {"link": {"width": 8, "most": 16}}).readings
    assert found == GpuReadings(
        recovery_action=1,
        uncorrected_errors=2,
        rows_corrected=3,
        rows_uncorrected=4,
        row_remap_pending=True,
        row_remap_failed=True,
        pages_corrected=5,
        pages_uncorrected=6,
        retirement_pending=True,
        sram_exceeded=True,
        slowed=("hw-thermal",),
        width=PcieLink(now=8, most=16),
        generation=PcieLink(now=1, most=4),
    )


def test_a_link_with_all_its_lanes_says_nothing_and_older_helpers_tell_of_none() -> None:
    assert gpu({}, {"link": {"width": 16, "most": 16}}).readings == GpuReadings()
    assert gpu({"readings": None}, {"link": None}).readings == GpuReadings()


def test_xids_are_in_the_order_of_the_kernels_numbers() -> None:
    line = {"at_us": 1, "address": "0000:41:00.0", "instance": None, "text": "gone"}
    listed = [{**line, "seq": 9, "xid": 79}, {**line, "seq": 7, "xid": 31, "instance": 5}]
    assert assemble("h1", {**PROBE, "xids": listed}).xids == (
        XidLine(seq=7, address="0000:41:00.0", xid=31, instance=5, text="gone"),
        XidLine(seq=9, address="0000:41:00.0", xid=79, text="gone"),
    )
    assert assemble("h1", {**PROBE, "xids": None}).xids == ()


def test_what_nvml_does_not_say_stays_unknown() -> None:
    names = ("mig", "ecc", "module_id", "fabric_state", "nvlinks", "mixed_size", "scheduler")
    silent = gpu({**dict.fromkeys(names), "vgpu_capabilities": None, "health": None})
    assert all(getattr(silent, name) is None for name in names)
    assert (silent.vgpu_capabilities, silent.health) == ((), GpuHealth.UNKNOWN)


def test_a_name_of_older_drivers_is_read_as_what_the_catalogue_has_now() -> None:
    profile = {"name": "1g.24gb", "id": 19, "slices": 1, "size": 1, "starts": [0, 1]}
    instance = {"id": 9, "profile": "7g.189gb", "profile_id": 0, "start": 0, "size": 8}
    mig = {"enabled": True, "pending": True, "profiles": [profile], "instances": [instance]}
    found = gpu({"mig": mig}, {"device": "2941", "subsystem": "10de:2046"}).mig
    assert found is not None
    assert [each.name for each in found.profiles] == ["1g.23gb"]
    assert [each.profile for each in found.instances or ()] == ["7g.186gb"]


def test_types_in_gpu_instances_are_kept_of_boards_outside_the_catalogue_alone() -> None:
    kind = {"id": 901, "name": "NVIDIA H900-1-12C", "profile_id": 19, "memory_mib": 12288,
            "per_instance": None, "per_vm": 2}  # fmt: skip
    mig = {"enabled": False, "pending": False, "profiles": [], "types": [kind]}
    unlisted = {"device": "2324", "subsystem": "10de:0000"}
    found = gpu({"mig": mig}, unlisted).mig
    assert found is not None
    assert found.types == (
        MigType(
            type_id="901", profile="H900-1-12C", profile_id=19, memory_mib=12288,
            per_instance=1, per_vm=2,
        ),
    )  # fmt: skip
    known = gpu({"mig": mig}, A100).mig
    assert known is not None
    assert known.types is None
    for silent in ({**mig, "types": None}, {"enabled": False, "pending": False}):
        facts = gpu({"mig": silent}, unlisted).mig
        assert facts is not None
        assert facts.types is None


@pytest.mark.parametrize(
    "odd", [{"id": -1}, {"profile_id": "19"}, {"memory_mib": 0}, {"per_vm": 1000}, {"name": 4}]
)
def test_nonsense_of_a_type_in_gpu_instances_is_named(odd: dict[str, Any]) -> None:
    kind = {"id": 901, "name": "x", "profile_id": 19, "memory_mib": 1, "per_instance": 1} | odd
    mig = {"enabled": False, "pending": False, "profiles": [], "types": [kind]}
    with pytest.raises(OutcomeUnknown, match=r"types\[0\]"):
        gpu({"mig": mig}, {"device": "2324", "subsystem": "10de:0000"})


def test_mig_is_read_with_names_of_the_catalogue_where_the_driver_gives_none() -> None:
    profile = {"name": None, "id": 19, "slices": 1, "size": 1, "starts": [0, 1], "remaining": None}
    instance = {"id": 9, "profile": None, "profile_id": 19, "start": 2, "size": 1}
    odd = {"id": 2, "profile": None, "profile_id": 99, "start": 4, "size": 1,
           "compute": [{"id": 0, "profile_id": 0}]}  # fmt: skip
    mig = {"enabled": True, "pending": False, "profiles": [profile], "instances": [instance, odd]}
    assert gpu({"mig": mig}, A100).mig == MigFacts(
        enabled=True,
        pending=False,
        profiles=(MigProfile(name="1g.10gb", profile_id=19, gpu_slices=1, size=1, starts=(0, 1)),),
        instances=(
            GpuInstance(id=9, profile="1g.10gb", profile_id=19, start=2, size=1),
            GpuInstance(
                id=2, profile="profile-99", profile_id=99, start=4, size=1,
                compute=(ComputeInstance(id=0, profile_id=0),),
            ),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("mig", [{"enabled": None, "pending": True}, {"enabled": True}])
def test_a_mode_that_was_not_read_is_no_mode(mig: dict[str, Any]) -> None:
    assert gpu({"mig": mig}, A100).mig is None


def test_instances_that_could_not_be_read_are_not_none_at_all() -> None:
    mig: dict[str, Any] = {"enabled": True, "pending": True, "profiles": [], "instances": None}
    unread, empty = gpu({"mig": mig}, A100).mig, gpu({"mig": {**mig, "instances": []}}, A100).mig
    assert unread is not None and unread.instances is None
    assert empty is not None and empty.instances == ()


def test_virtual_functions_are_kept_by_number_with_what_the_vendor_shows() -> None:
    vendor = {"creatable": [1145, 1147], "type": 0, "instance": None, "placement_id": None}
    carries = {"creatable": None, "type": 1147, "instance": 3, "placement_id": 8}
    vfs = [
        {"number": 1, "address": "0000:41:00.5", "driver": "nvidia", "iommu_group": 81,
         "reset_methods": ["flr"], "vgpu": carries},
        {"number": 0, "address": "0000:41:00.4", "driver": "vfio-pci", "vgpu": vendor},
    ]  # fmt: skip
    found = gpu({}, {"sriov": {"total": 16, "num": 2, "vfs": vfs}})
    assert found.sriov_total == 16
    assert found.vfs == (
        VfFacts(
            number=0, address="0000:41:00.4", driver="vfio-pci",
            vendor=VendorVgpu(creatable=(1145, 1147), type_id=0),
        ),
        VfFacts(
            number=1, address="0000:41:00.5", driver="nvidia", iommu_group=81,
            reset_methods=("flr",),
            vendor=VendorVgpu(creatable=None, type_id=1147, instance=3, placement_id=8),
        ),
    )  # fmt: skip


def test_siblings_are_the_other_functions_of_the_slot() -> None:
    sibling = {"address": "0000:41:00.1", "class": "040300", "driver": "snd_hda_intel"}
    assert gpu({}, {"siblings": [sibling]}).siblings == ("0000:41:00.1",)


@pytest.mark.parametrize(
    ("vendor", "device", "model"),
    [("1002", "74a1", "MI300X"), ("8086", "56c0", "FLEX-170"), ("1002", "ffff", "1002:ffff")],
)
def test_boards_of_other_vendors_are_named_by_the_catalogue(
    vendor: str, device: str, model: str
) -> None:
    found = gpu({}, {"vendor": vendor, "device": device, "subsystem": "1002:0c34"})
    assert found.model == model


def test_the_processor_and_the_fabric_are_kept() -> None:
    gpus = [{"physical_id": 1, "uuid": "GPU-1"}, {"physical_id": 3, "uuid": "GPU-3"}]
    fabric = {"partitions": [{"id": 7, "active": True, "gpus": gpus}, {"id": 8, "gpus": []}]}
    facts = assemble("h1", {**PROBE, "cpu_model": "AMD EPYC 7763", "fabric": fabric})
    assert facts.cpu_model == "AMD EPYC 7763"
    assert facts.fabric == FabricFacts(
        partitions=(
            FabricPartitionFacts(id=7, gpus=(1, 3), active=True),
            FabricPartitionFacts(id=8, gpus=()),
        )
    )
    assert assemble("h1", {**PROBE, "fabric": {"partitions": []}}).fabric == FabricFacts()
    assert assemble("h1", {**PROBE, "fabric": None}).fabric is None


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


DOMAIN = DomainFacts(name="a", uuid="u", state=DomainState.RUNNING, memory_mib=1024, vcpus=2)
POOL = StoragePool(name="p", kind="dir", path="/p", capacity_bytes=9, available_bytes=3)


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"domains": [replace(DOMAIN, memory_mib=2**70)]}, "domain a: memory"),
        ({"domains": [replace(DOMAIN, vcpus=-1)]}, "domain a: vcpus"),
        ({"domains": [DOMAIN, replace(DOMAIN, uuid="v")]}, "domains"),
        ({"domains": [replace(DOMAIN, name="\ud800")]}, "domains"),
        ({"domains": [replace(DOMAIN, devices=("x" * 5000,))]}, "domain a"),
        ({"pools": [replace(POOL, capacity_bytes=2**64)]}, "pool p: capacity"),
        ({"pools": [replace(POOL, available_bytes=-5)]}, "pool p: available"),
        ({"networks": ["default", "default"]}, "networks"),
        ({"version": "9" * 5000}, "version"),
    ],
)
def test_what_libvirt_says_is_held_against_range_and_sense(
    said: dict[str, Any], where: str
) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        assemble("h1", PROBE, LibvirtLists(**said))
    assert f'what libvirt on h1 says cannot be understood: "{where}"' in caught.value.message
    lists = LibvirtLists(domains=(DOMAIN,), pools=(POOL,), networks=("default",), version="9.0.0")
    assemble("h1", PROBE, lists)

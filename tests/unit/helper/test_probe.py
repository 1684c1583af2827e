"""The probe: what it shows of a host, and that no unreadable part ever hides the rest."""

from __future__ import annotations

import errno
import json

import pytest

from tests.unit.helper.host import (
    AUDIO,
    CLAIM,
    FLEET,
    GPU,
    PCI,
    UUID,
    FakeHost,
    done,
    gpu_host,
    refused,
)
from tests.unit.helper.nvml import FakeGpu, FakeNvml

GPU_PATH = f"/sys/devices/pci0000:40/{GPU}"


@pytest.fixture
def host() -> FakeHost:
    host = gpu_host()
    node = "/sys/devices/system/node/node0"
    host.files |= {
        "/proc/sys/kernel/hostname": "h1\n",
        "/proc/sys/kernel/osrelease": "6.1.0-37-amd64\n",
        "/proc/sys/kernel/random/boot_id": "7d2f\n",
        "/proc/meminfo": "MemTotal:       65536000 kB\nMemFree: 1 kB\n",
        "/proc/cpuinfo": "model name\t: AMD EPYC 7763 64-Core Processor\nflags\t: fpu\n",
        "/sys/devices/system/cpu/online": "0-2,8\n",
        "/sys/devices/system/node/possible": "0\n",
        f"{node}/cpulist": "0-1,8\n",
        f"{node}/meminfo": "Node 0 MemTotal:       32768000 kB\n",
        f"{node}/hugepages/hugepages-2048kB/nr_hugepages": "4\n",
        f"{node}/hugepages/hugepages-2048kB/free_hugepages": "3\n",
        "/sys/class/iommu/dmar0/name": "",
        "/sys/class/net/br0/bridge/bridge_id": "",
        "/sys/class/net/eth0/address": "",
        "/etc/mdevctl.d/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001": "{}",
        "/etc/mdevctl.d/scripts.d/notifiers": "",
        f"{GPU_PATH}/numa_node": "1\n",
        f"{GPU_PATH}/reset_method": "flr bus\n",
        f"{GPU_PATH}/boot_vga": "0\n",
    }
    host.programs["qemu-system-x86_64 --version"] = (0, "QEMU emulator version 7.2.22 (Debian)\n")
    host.library = FakeNvml(FakeGpu(GPU, mig=None))
    return host


def unknown(answer: dict[str, object]) -> dict[str, str]:
    entries: list[dict[str, str]] = answer["unknown"]  # type: ignore[assignment]
    return {entry["part"]: entry["why"] for entry in entries}


@pytest.mark.parametrize(
    ("told", "stopping"),
    [
        ((0, "SystemState=stopping\n"), True),
        ((0, "SystemState=degraded\n"), False),
        ((1, "System has not been booted with systemd\n"), False),
    ],
)
def test_systemd_tells_of_a_shutdown(host: FakeHost, told: tuple[int, str], stopping: bool) -> None:
    host.programs["systemctl"] = told
    assert done(host, "probe")["stopping"] is stopping


def test_the_machine(host: FakeHost) -> None:
    seen = done(host, "probe")
    expected = {
        "hostname": "h1",
        "kernel": "6.1.0-37-amd64",
        "boot_id": "7d2f",
        "stopping": False,
        "qemu": "7.2.22",
        "cpus": 4,
        "cpu_model": "AMD EPYC 7763 64-Core Processor",
        "memory_mib": 64000,
        "iommu": True,
        "kvm": False,
        "root": True,
        "epochs": {},
        "bridges": ["br0"],
        "features": [],
        "mdevctl": ["83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"],
        "claims": [],
        "unknown": [],
    }
    assert {name: seen[name] for name in expected} == expected
    hugepages = [{"size_kib": 2048, "total": 4, "free": 3}]
    assert seen["numa"] == [
        {"node": 0, "cpus": [0, 1, 8], "memory_mib": 32000, "hugepages": hugepages}
    ]


@pytest.mark.parametrize(
    ("stray", "named"),
    [
        ("/etc/mdevctl.d/notes.txt", "mdevctl notes.txt"),
        ("/etc/mdevctl.d/mtty/README", "mdevctl mtty/README"),
    ],
)
def test_a_stray_file_beside_definitions_is_named_and_loses_none(
    host: FakeHost, stray: str, named: str
) -> None:
    host.files[stray] = "see the wiki\n"
    seen = done(host, "probe")
    assert seen["mdevctl"] == ["83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"]
    assert [each["part"] for each in seen["unknown"]] == [named]


@pytest.mark.parametrize("kib", [2048, 1048576])
def test_the_size_of_huge_pages_where_none_is_named(host: FakeHost, kib: int) -> None:
    host.files["/proc/meminfo"] = f"MemTotal:       65536000 kB\nHugepagesize:    {kib} kB\n"
    assert done(host, "probe").get("hugepage_kib") == kib


def test_bridges_of_the_iommu_group_are_no_endpoints_of_it() -> None:
    devices = done(gpu_host(), "probe")["devices"]
    assert devices[0]["group_devices"] == [GPU, AUDIO]


def test_display_functions_only(host: FakeHost) -> None:
    host.add_function("0000:50:00.0", kind="120000", driver="amdgpu", group=20)
    host.add_function("0000:51:00.0", kind="020000", group=21)
    vf = host.add_function("0000:41:00.4", kind="030200", group=22)
    host.links[f"{vf}/physfn"] = GPU_PATH
    listed = [device["address"] for device in done(host, "probe")["devices"]]
    assert listed == [GPU, "0000:50:00.0"], "no bridge, no audio, no NIC, no VF"


def test_a_device_with_everything_it_has(host: FakeHost) -> None:
    host.files |= {f"{GPU_PATH}/current_link_width": "4\n", f"{GPU_PATH}/max_link_width": "16\n"}
    host.links[f"{GPU_PATH}/virtfn10"] = "../0000:41:01.6"
    host.links[f"{GPU_PATH}/virtfn2"] = "../0000:41:00.6"
    host.files[f"{GPU_PATH}/sriov_totalvfs"] = "16\n"
    host.files[f"{GPU_PATH}/sriov_numvfs"] = "2\n"

    def vf(number: int, address: str) -> dict[str, object]:
        nothing = {"driver": None, "iommu_group": None, "reset_methods": [], "vgpu": None}
        return {"number": number, "address": address, **nothing}

    [device] = done(host, "probe")["devices"]
    assert device == {
        "address": GPU,
        "link": {"width": 4, "most": 16},
        "path": GPU_PATH,
        "class": "030200",
        "vendor": "10de",
        "device": "1eb8",
        "subsystem": "10de:12a2",
        "numa_node": 1,
        "driver": "nvidia",
        "driver_override": None,
        "iommu_group": 12,
        "group_devices": [GPU, AUDIO],
        "boot_vga": False,
        "reset_methods": ["flr", "bus"],
        "siblings": [{"address": AUDIO, "class": "040300", "driver": "snd_hda_intel"}],
        "sriov": {
            "total": 16,
            "num": 2,
            "offset": None,
            "stride": None,
            "vgpu_types": [],
            "vfs": [vf(2, "0000:41:00.6"), vf(10, "0000:41:01.6")],
        },
    }


def test_what_a_device_does_not_have_is_no_failure(host: FakeHost) -> None:
    for name in ("numa_node", "reset_method", "boot_vga", "driver_override"):
        host.files.pop(f"{GPU_PATH}/{name}", None)
        host.hooks.pop(f"{GPU_PATH}/{name}", None)
    del host.links[f"{GPU_PATH}/iommu_group"]
    seen = done(host, "probe")
    [device] = seen["devices"]
    nothing = ("numa_node", "driver_override", "iommu_group", "sriov")
    assert [device[name] for name in nothing] == [None] * 4
    assert (device["group_devices"], device["reset_methods"]) == ([], [])
    assert device["boot_vga"] is False
    assert unknown(seen) == {}


def test_the_kernels_minus_one_is_no_numa_node(host: FakeHost) -> None:
    host.files[f"{GPU_PATH}/numa_node"] = "-1\n"
    [device] = done(host, "probe")["devices"]
    assert device["numa_node"] is None


def test_parents_types_and_devices(host: FakeHost) -> None:
    host.add_parent("mtty", "/sys/devices/virtual/mtty/mtty", {"mtty-1": 1, "mtty-2": 2}, 24)
    description = "/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-2/description"
    host.files[description] = "num_heads=4\n"
    done(host, "mdev_create", parent="mtty", type="mtty-2", uuid=UUID, claim=CLAIM)
    seen = done(host, "probe")
    assert seen["parents"] == [
        {
            "name": "mtty",
            "path": "/sys/devices/virtual/mtty/mtty",
            "types": [
                {
                    "id": "mtty-1",
                    "name": "name of mtty-1",
                    "available": 22,
                    "device_api": "vfio-pci",
                    "description": "",
                },
                {
                    "id": "mtty-2",
                    "name": "name of mtty-2",
                    "available": 11,
                    "device_api": "vfio-pci",
                    "description": "num_heads=4",
                },
            ],
        }
    ]
    assert seen["mdevs"] == [{"uuid": UUID, "parent": "mtty", "type": "mtty-2", "iommu_group": 101}]
    assert [claim["unit"] for claim in seen["claims"]] == [f"mdev-{UUID}"]


def test_a_count_that_cannot_be_read_is_null_and_named(host: FakeHost) -> None:
    host.add_parent("mtty", "/sys/devices/virtual/mtty/mtty", {"mtty-1": 1}, 24)
    host.unreadable["/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/avail"] = errno.EIO
    seen = done(host, "probe")
    assert seen["parents"][0]["types"][0]["available"] is None
    assert "parents mtty mtty-1" in unknown(seen)


def test_nvml_is_not_asked_where_nvidias_driver_holds_nothing(host: FakeHost) -> None:
    host.library = None
    done(host, "vfio_bind", address=GPU, with_=[AUDIO], claim=CLAIM)
    seen = done(host, "probe")
    assert seen["nvml"] is None
    assert unknown(seen) == {}


@pytest.mark.parametrize(
    "part",
    [
        "/proc/cpuinfo",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/osrelease",
        "/proc/sys/kernel/random",
        "/proc/meminfo",
        "/sys/devices/system/cpu",
        "/sys/devices/system/node",
        "/sys/class/iommu",
        "/sys/class/net",
        "/sys/class/mdev_bus",
        "/sys/bus/mdev",
        "/sys/bus/pci/devices",
        "/etc/mdevctl.d",
        "/var/lib/vgpumgr/claims",
        "/var/lib/vgpumgr/epochs",
        "/dev/kvm",
    ],
)
def test_no_unreadable_part_fails_the_probe(host: FakeHost, part: str) -> None:
    whole = done(host, "probe")
    host.files["/dev/kvm"] = ""
    host.unreadable[part] = errno.EACCES
    seen = done(host, "probe")
    assert seen.keys() == whole.keys()
    assert any("Permission denied" in why for why in unknown(seen).values())


@pytest.mark.parametrize("field", ["class", "vendor", "driver", "iommu_group", "numa_node"])
def test_an_unreadable_field_is_null_and_named_with_its_device(host: FakeHost, field: str) -> None:
    host.unreadable[f"{PCI}/devices/{GPU}/{field}"] = errno.EIO
    assert any(part.startswith(f"devices {GPU} {field}") for part in unknown(done(host, "probe")))


def test_nonsense_in_a_file_is_unknown(host: FakeHost) -> None:
    host.files[f"{GPU_PATH}/numa_node"] = "north\n"
    host.files["/sys/devices/system/cpu/online"] = "many\n"
    host.files["/proc/meminfo"] = "\n"
    host.programs["qemu-system-x86_64 --version"] = (1, "Illegal instruction")
    seen = done(host, "probe")
    assert (seen["cpus"], seen["memory_mib"], seen["qemu"]) == (None, None, None)
    assert {"cpus", "memory_mib", "qemu", f"devices {GPU} numa_node"} <= unknown(seen).keys()


def test_a_bare_machine_is_probed_without_root() -> None:
    host = FakeHost()
    host.is_root = False
    seen = done(host, "probe")
    assert seen["root"] is False
    assert seen["iommu"] is False
    empty = ("devices", "parents", "mdevs", "mdevctl", "claims", "numa", "bridges")
    assert all(seen[name] == [] for name in empty)


def test_a_damaged_claim_is_named_and_the_others_are_shown(host: FakeHost) -> None:
    host.add_parent("mtty", "/sys/devices/virtual/mtty/mtty", {"mtty-1": 1}, 24)
    done(host, "mdev_create", parent="mtty", type="mtty-1", uuid=UUID, claim=CLAIM)
    host.files[f"/var/lib/vgpumgr/claims/pci-{GPU}.json"] = "{"
    seen = done(host, "probe")
    assert [claim["fleet"] for claim in seen["claims"]] == [FLEET]
    assert unknown(seen).keys() == {f"claims pci-{GPU}"}


# -- kvm_probe

BOOTED = (0, "Linux version 6.1.0-37-amd64 (debian-kernel)\nKernel panic\n")


@pytest.fixture
def kvm_host(host: FakeHost) -> FakeHost:
    host.files |= {"/dev/kvm": "", "/boot/vmlinuz-6.1.0-37-amd64": "", "/boot/vmlinuz-6.9": ""}
    host.programs["qemu-system-x86_64"] = BOOTED
    return host


def boots(host: FakeHost) -> list[str]:
    return [line for what, line in host.log if what == "run" and "-kernel" in line]


def test_kvm_is_proven_by_the_hosts_own_kernel_and_remembered(kvm_host: FakeHost) -> None:
    before = done(kvm_host, "probe")
    assert before["kvm"] is None
    assert unknown(before) == {"kvm": "not tried with this kernel and QEMU yet (verb kvm_probe)"}
    assert done(kvm_host, "kvm_probe")["kvm"] is True
    assert done(kvm_host, "kvm_probe")["kvm"] is True
    [boot] = boots(kvm_host)
    assert "-accel kvm" in boot
    assert "-kernel /boot/vmlinuz-6.1.0-37-amd64" in boot
    after = done(kvm_host, "probe")
    assert (after["kvm"], after["unknown"]) == (True, [])


@pytest.mark.parametrize("changed", ["kernel", "qemu"])
def test_kvm_is_tried_again_with_another_kernel_or_qemu(kvm_host: FakeHost, changed: str) -> None:
    done(kvm_host, "kvm_probe")
    if changed == "kernel":
        kvm_host.files["/proc/sys/kernel/osrelease"] = "6.9\n"
    else:
        kvm_host.programs["qemu-system-x86_64 --version"] = (0, "QEMU emulator version 10.0.13\n")
    assert done(kvm_host, "probe")["kvm"] is None
    done(kvm_host, "kvm_probe")
    assert len(boots(kvm_host)) == 2


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ((124, "Linux version 6.1.0\nBooting"), "no clean exit within 30 s"),
        ((124, ""), "no kernel banner; QEMU ended with 124"),
        ((1, "Could not access KVM kernel module"), "no kernel banner; QEMU ended with 1"),
    ],
)
def test_a_kernel_that_does_not_boot_means_no_kvm(
    kvm_host: FakeHost, outcome: tuple[int, str], why: str
) -> None:
    kvm_host.programs["qemu-system-x86_64"] = outcome
    answer = done(kvm_host, "kvm_probe")
    assert answer["kvm"] is False
    assert answer["why"].startswith(why)
    assert done(kvm_host, "probe")["kvm"] is False


def test_without_dev_kvm_qemu_or_kernel_there_is_no_kvm(kvm_host: FakeHost) -> None:
    for path in [path for path in kvm_host.files if path.startswith("/boot")]:
        del kvm_host.files[path]
    answer = {"kvm": False, "why": "no kernel in /boot to boot"}
    assert done(kvm_host, "kvm_probe") == answer
    kvm_host.programs.clear()
    assert "is installed" in done(kvm_host, "kvm_probe")["why"]
    del kvm_host.files["/dev/kvm"]
    assert done(kvm_host, "kvm_probe") == {"kvm": False, "why": "no /dev/kvm"}


def test_the_newest_kernel_is_booted_where_the_running_one_is_gone(kvm_host: FakeHost) -> None:
    del kvm_host.files["/boot/vmlinuz-6.1.0-37-amd64"]
    kvm_host.files["/boot/vmlinuz-6.12.1"] = ""
    done(kvm_host, "kvm_probe")
    assert "-kernel /boot/vmlinuz-6.12.1" in boots(kvm_host)[0]


def test_a_verdict_that_cannot_be_kept_is_still_told(kvm_host: FakeHost) -> None:
    kvm_host.refuse["kvm.json"] = errno.EACCES
    assert done(kvm_host, "kvm_probe")["kvm"] is True


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"6.1.0-37-amd64 7.2.22": {"kvm": 1}})])
def test_a_damaged_memory_is_no_memory(kvm_host: FakeHost, text: str) -> None:
    kvm_host.files["/var/lib/vgpumgr/kvm.json"] = text
    assert done(kvm_host, "probe")["kvm"] is None
    assert done(kvm_host, "kvm_probe")["kvm"] is True


# -- forget, image_inspect


def test_forget_refuses_while_a_claim_is_left_and_then_removes_every_trace(host: FakeHost) -> None:
    done(host, "vfio_bind", address=GPU, with_=[AUDIO], claim=CLAIM)
    error = refused(host, "forget")
    assert (error["code"], error["why"]) == ("in-use", f"pci-{GPU}")
    assert refused(host, "forget", fleet="fleet-2")["code"] == "in-use"
    done(host, "vfio_release", address=GPU, claim=CLAIM)
    host.files["/var/lib/vgpumgr/claims/mdev-x.json.tmp"] = "{"  # a write that was cut
    assert done(host, "forget") == {"layouts": []}
    assert [path for path in host.files if path.startswith("/var/lib/vgpumgr")] == []
    assert host.files[f"/run/vgpumgr/given/{GPU}"] == "-\n", "until the next boot a reset is due"
    assert done(host, "forget") == {"layouts": []}, "nothing left to forget is no error"


def test_an_image_is_read_inside_its_pool_only(host: FakeHost) -> None:
    host.add_pool("/pool")
    host.images["/pool/a.img"] = b"\x00" * 4096
    host.images["/pool/b.img"] = b"KDMV" + b"\x00" * 4096
    seen = done(host, "image_inspect", path="/pool/a.img", pool_path="/pool")
    assert (seen["format"], seen["virtual_bytes"]) == ("raw", 4096)
    outside = refused(host, "image_inspect", path="/etc/shadow", pool_path="/pool")
    assert (outside["code"], outside["errno"]) == ("refused", "EXDEV")
    absent = refused(host, "image_inspect", path="/pool/c.img", pool_path="/pool")
    assert absent["code"] == "not-found"
    vmdk = refused(host, "image_inspect", path="/pool/b.img", pool_path="/pool")
    assert vmdk["code"] == "refused"
    assert "vmdk" in vmdk["why"]

"""``examine``: how a host is set up, read from its files; what cannot be read is named."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.unit.helper.host import GPU, PCI, FakeHost, call, gpu_host

RELEASE = "6.12.43+deb13-amd64"
GPU_PATH = f"/sys/devices/pci0000:40/{GPU}"
UNSAFE = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
HELPER = "/usr/local/lib/vgpumgr/vgpumgr/helper/__init__.py"
LISTED = """\
Matching Defaults entries for gpuadm on h1:
    env_reset, use_pty

User gpuadm may run the following commands on h1:
    (root) NOPASSWD: /usr/local/lib/vgpumgr/vgpumgr-helper ""
    (ALL : ALL) ALL
"""
SHOWN = """\
Result=success
Id=vgpumgr-restore.service
LoadState=not-found
ActiveState=inactive
UnitFileState=

Result=exit-code
Id=libvirtd.service
LoadState=loaded
ActiveState=failed
UnitFileState=enabled
"""


class Host(FakeHost):
    """A host whose user and clock are not this machine's."""

    def user(self) -> str:
        return "gpuadm"

    def synchronised(self) -> bool:
        return True


@pytest.fixture
def host() -> Host:
    host = Host()
    host.__dict__.update(gpu_host().__dict__)
    modules = f"/lib/modules/{RELEASE}"
    host.files |= {
        "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
        "/proc/cmdline": "ro intel_iommu=on modprobe.blacklist=a-b,c\n",
        "/proc/cpuinfo": "flags\t\t: fpu hypervisor\n",
        "/proc/interrupts": "  CPU0\n 24:  1  IR-PCI-MSI-0000:00:1f.2  0-edge  ahci\n",
        "/proc/modules": "vfio_pci 16384 0 - Live 0x0\nkvm 1 1 kvm_intel, Live 0x0\n",
        f"{modules}/modules.dep": "kernel/drivers/gpu/nouveau.ko.xz: kernel/drm.ko.xz\n",
        f"{modules}/modules.builtin": "kernel/drivers/vfio/pci/vfio-pci.ko\n",
        "/etc/modprobe.d/a.conf": "# blacklist x\nblacklist nouveau\ninstall evil /bin/false\n",
        "/etc/modprobe.d/readme": "blacklist y\n",
        "/usr/lib/modprobe.d/b.conf": "options vfio_pci ids=1\ninstall kind /sbin/modprobe kind\n",
        "/sys/class/iommu/dmar0/intel-iommu/ecap": "f020df\n",
        "/sys/class/iommu/dmar1/name": "",
        "/sys/kernel/iommu_groups/7/type": "DMA\n",
        "/sys/firmware/acpi/tables/DMAR": "",
        "/sys/firmware/efi/runtime": "",
        SECURE_BOOT: "\x06\x00\x00\x00\x01",
        "/sys/class/dmi/id/sys_vendor": "QEMU\n",
        "/sys/module/kvm_intel/parameters/nested": "Y\n",
        UNSAFE: "N\n",
        "/etc/libvirt/storage/autostart/default.xml": "",
        HELPER: '"""Text."""\n\nVERSION = "7"\n',
        f"{GPU_PATH}/resource": "0x0000000010 0x000000001f 0x0000040200\n",
    }
    host.programs |= {"sudo": (0, LISTED), "systemctl": (0, SHOWN)}
    return host


def examine(host: Host) -> dict[str, Any]:
    answer = call(host, "examine")
    assert answer["ok"], answer
    return answer["result"]


def test_everything_there_is_to_read(host: Host) -> None:
    found = examine(host)
    assert found["unknown"] == []
    assert found["blacklisted"] == ["a_b", "c", "evil", "nouveau"]
    assert found["available"] == ["nouveau", "vfio_pci"]
    assert found["modules"] == ["kvm", "vfio_pci"]
    assert found["intel_ecap"] == {"dmar0": "f020df"}
    assert (found["iommus"], found["iommu_groups"]) == (["dmar0", "dmar1"], 2)
    assert found["acpi_tables"] == ["DMAR"]
    assert (found["remapping"], found["unsafe_interrupts"]) == (True, False)
    assert (found["guest_of"], found["nested"]) == ("QEMU", True)
    assert (found["uefi"], found["secure_boot"]) == (True, True)
    assert found["pools_at_boot"] == ["default"]
    assert (found["user"], found["installed"], found["synchronised"]) == ("gpuadm", "7", True)
    assert found["bars"] == {GPU: [[16, 31, 0x40200]]}
    assert found["sudo_rules"] == [
        '(root) NOPASSWD: /usr/local/lib/vgpumgr/vgpumgr-helper ""',
        "(ALL : ALL) ALL",
    ]
    restore, libvirtd = found["units"].values()
    assert restore == {
        "load": "not-found",
        "enabled": "",
        "active": "inactive",
        "result": "success",
    }
    assert libvirtd["result"] == "exit-code"


def test_nothing_is_changed(host: Host) -> None:
    examine(host)
    assert {what for what, _ in host.log} == {"run"}
    assert {line.split(" ")[0] for _, line in host.log} == {"sudo", "systemctl"}


UNREADABLE = {
    "kernel_line": "/proc/cmdline",
    "acpi_tables": "/sys/firmware/acpi",
    "iommus": "/sys/class/iommu",
    "iommu_groups": "/sys/kernel/iommu_groups",
    "intel_ecap": "/sys/class/iommu/dmar0/intel-iommu",
    "remapping": "/proc/interrupts",
    "unsafe_interrupts": UNSAFE,
    "modules": "/proc/modules",
    "available": f"/lib/modules/{RELEASE}/modules.dep",
    "blacklisted": "/etc/modprobe.d",
    "guest_of": "/proc/cpuinfo",
    "nested": "/sys/module/kvm_intel",
    "secure_boot": SECURE_BOOT,
    "pools_at_boot": "/etc/libvirt",
    "installed": HELPER,
    f"bars {GPU}": f"{PCI}/devices/{GPU}/resource",
}


@pytest.mark.parametrize(("part", "path"), UNREADABLE.items(), ids=UNREADABLE)
def test_a_part_that_cannot_be_read_is_named_and_hides_no_other(
    host: Host, part: str, path: str
) -> None:
    host.unreadable[path] = errno.EACCES
    found = examine(host)
    named = {each["part"]: each["why"] for each in found["unknown"]}
    assert "Permission denied" in named[part]
    assert found.get(part) is None
    assert found["bars" if part != f"bars {GPU}" else "modules"]


@pytest.mark.parametrize(
    ("program", "output", "part", "words"),
    [
        ("sudo", (1, "sudo: a password is required\n"), "sudo_rules", "password is required"),
        ("systemctl", (1, "System has not been booted with systemd\n"), "units", "not been booted"),
        ("systemctl", (0, ""), "units", "systemctl show says"),
    ],
)
def test_a_program_that_does_not_tell(
    host: Host, program: str, output: tuple[int, str], part: str, words: str
) -> None:
    host.programs[program] = output
    found = examine(host)
    assert found[part] is None
    assert words in {each["part"]: each["why"] for each in found["unknown"]}[part]


def test_a_user_without_any_rule_has_none(host: Host) -> None:
    host.programs["sudo"] = (0, "User gpuadm is not allowed to run sudo on h1.\n")
    assert examine(host)["sudo_rules"] == []


def test_root_asks_for_the_user_and_the_user_for_himself(host: Host) -> None:
    examine(host)
    assert ("run", "sudo -n -l -U gpuadm") in host.log
    host.is_root = False
    examine(host)
    assert ("run", "sudo -n -l") in host.log


def test_a_bare_host_has_nothing_and_nothing_is_unknown_that_can_be_told() -> None:
    host = Host()
    for path in ("/proc/cmdline", "/proc/cpuinfo", "/proc/interrupts", "/proc/modules"):
        host.files[path] = "\n"
    host.files["/sys/bus/pci/devices/."] = ""
    found = examine(host)
    assert {each["part"] for each in found["unknown"]} == {"available", "sudo_rules", "units"}
    nothing = {"iommus": [], "iommu_groups": 0, "guest_of": "", "installed": "", "uefi": False}
    assert {name: found[name] for name in nothing} == nothing
    assert (found["remapping"], found["secure_boot"]) == (False, False)


def test_uefi_without_the_variable_is_unknown(host: Host) -> None:
    del host.files[SECURE_BOOT]
    host.files["/sys/firmware/efi/efivars/Boot0000"] = ""
    assert examine(host)["secure_boot"] is None

"""``vgpumgr doctor HOST`` on a lab host: nothing is unread, and what is broken there is found."""

from __future__ import annotations

import pytest

from tests.lab.labhost import LabHost, Vgpumgr

pytestmark = pytest.mark.lab

UNSAFE = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
BROAD = "/etc/sudoers.d/zz-broad"
# What a guest of a hypervisor, without KVM, NTP and a large disk, is warned of.
USUAL = {"kvm", "nesting", "clock", "storage"}
# By the check that finds it: how it is broken on the host, and how it is mended.
BREAKS = {
    "interrupt remapping": (
        f"modprobe vfio_iommu_type1; echo Y > {UNSAFE}",
        f"echo N > {UNSAFE}",
    ),
    "sudo": (
        f"umask 337; echo 'vgpumgr ALL=(root) NOPASSWD: /usr/bin/id' > {BROAD}",
        f"rm -f {BROAD}",
    ),
    "boot restore": (
        "systemctl disable vgpumgr-restore.service",
        "systemctl enable vgpumgr-restore.service",
    ),
    "libvirt": (
        "systemctl disable libvirtd.service libvirtd.socket",
        "systemctl enable libvirtd.service libvirtd.socket",
    ),
}


def marks(vgpumgr: Vgpumgr, lab: LabHost, code: int) -> dict[str, str]:
    """The mark of each check; the exit code is 7 where one is bad."""
    found = vgpumgr("doctor", lab.name, "-o", "json", code=code).json["items"]
    return {each["check"]: each["mark"] for each in found}


def test_a_host_that_is_set_up_is_well_and_what_is_broken_by_hand_is_found(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    well = marks(vgpumgr, lab, 0)
    assert "unknown" not in well.values(), "everything can be read"
    assert {check for check, mark in well.items() if mark != "ok"} <= USUAL
    try:
        for how, _ in BREAKS.values():
            lab.root(how)
        broken = marks(vgpumgr, lab, 7)
    finally:
        for _, back in BREAKS.values():
            lab.root(back)
    assert {check for check in well if well[check] != broken[check]} == BREAKS.keys()
    assert broken["boot restore"] == "bad"

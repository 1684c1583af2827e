"""A host that is well, one thing changed, and exactly that check says so and what helps."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checks.values import (
    A40,
    FACTS,
    GIB,
    GPU,
    HEALTHY,
    NO_BAR,
    PLACED,
    POOL,
    RECORD,
    RULE,
    SEEN,
    UNITS,
    VF,
    WELL,
)
from vgpumgr.checks import CHECKS, check_host
from vgpumgr.model.examination import Bar, CheckOutcome, Examination, Finding, HostSetup
from vgpumgr.model.gpu import VfFacts
from vgpumgr.model.host import UnknownPart, Versions

OK, WARN, BAD, UNKNOWN = CheckOutcome.OK, CheckOutcome.WARN, CheckOutcome.BAD, CheckOutcome.UNKNOWN
RESTORE = "vgpumgr-restore.service"
SHARED = (*A40.group_devices, "0000:42:00.0")


def seen(**changes: Any) -> Examination:
    return replace(HEALTHY, seen=replace(SEEN, **changes))


def facts(**changes: Any) -> Examination:
    return replace(HEALTHY, facts=replace(FACTS, **changes))


def record(**changes: Any) -> Examination:
    return replace(HEALTHY, record=replace(RECORD, **changes))


def gpu(**changes: Any) -> Examination:
    return facts(gpus=(replace(A40, **changes),))


def versions(**changes: Any) -> Examination:
    return facts(versions=replace(FACTS.versions, **changes))


def bars(*lines: Bar) -> Examination:
    return seen(bars={GPU: lines})


def pool(**changes: Any) -> Examination:
    return facts(pools=(replace(POOL, **changes),))


def unit(name: str, **changes: Any) -> Examination:
    return seen(units={**UNITS, name: replace(WELL, **changes)})


def missing(part: str, why: str = "it broke") -> Examination:
    return facts(unknown=(UnknownPart(part=part, why=why),))


def differing(examination: Examination) -> dict[str, Finding]:
    """What is not as on the healthy host."""
    well = {each.check for each in check_host(HEALTHY)}
    found = {each.check: each for each in check_host(examination)}
    assert found.keys() == well
    return {name: each for name, each in found.items() if each.mark is not OK}


NO_IOMMU = {"iommus": (), "remapping": True}
# One change → the check that sees it, how bad it is, a word of what was found, and of the fix.
CASES = {
    "no table": (
        seen(**NO_IOMMU, acpi_tables=("APIC",)), "iommu", BAD, "DMAR or IVRS", "firmware"),
    "not on the line": (
        seen(**NO_IOMMU, kernel_line=("ro",)), "iommu", BAD, "intel_iommu=on is not",
        "intel_iommu=on iommu=pt"),
    "off on the line": (
        seen(**NO_IOMMU, kernel_line=("iommu=off",)), "iommu", BAD, "says iommu=off", "role iommu"),
    "on and yet off": (
        seen(**NO_IOMMU), "iommu", BAD, "none that it can use", "update-grub"),
    "AMD": (
        seen(**NO_IOMMU, acpi_tables=("IVRS",)), "iommu", BAD, "iommu=pt is not", "add iommu=pt"),
    "no groups": (seen(iommu_groups=0), "iommu", BAD, "off", "update-grub"),
    "not remapped": (
        seen(remapping=False), "interrupt remapping", BAD, "VFIO refuses", "firmware"),
    "cannot remap": (
        seen(remapping=False, intel_ecap={"dmar0": 0xF020D7}), "interrupt remapping", BAD,
        "dmar0 cannot", "firmware"),
    "intremap=off": (
        seen(remapping=False, kernel_line=("intremap=off",)), "interrupt remapping", BAD,
        "intremap=off", "remove intremap=off"),
    "unsafe": (
        seen(unsafe_interrupts=True), "interrupt remapping", WARN, "allow_unsafe", "role vfio"),
    "override": (
        seen(kernel_line=("pcie_acs_override=downstream",)), "isolation", WARN, "not isolate",
        "remove pcie_acs_override=downstream"),
    "a stranger": (
        gpu(group_devices=SHARED), "isolation", WARN, "other devices: 0000:42:00.0", "ACS"),
    "another GPU": (
        replace(
            HEALTHY,
            facts=replace(FACTS, gpus=(
                replace(A40, group_devices=SHARED),
                replace(A40, device="0000:42:00.0", group_devices=("0000:42:00.0",)))),
            seen=replace(SEEN, bars={GPU: PLACED, "0000:42:00.0": PLACED})),
        "isolation", WARN, "another GPU: 0000:42:00.0", "ACS"),
    "nouveau": (
        seen(modules=("nouveau",)), "nouveau", BAD, "it is loaded", "role driver_blacklist"),
    "not blacklisted": (
        seen(blacklisted=()), "nouveau", WARN, "next boot", "blacklist nouveau"),
    "no vfio-pci": (seen(available=()), "vfio", BAD, "no vfio-pci", "linux-image"),
    "no KVM": (facts(kvm=False), "kvm", WARN, "TCG", "firmware"),
    "KVM wanted": (
        replace(facts(kvm=False), record=replace(RECORD, accelerator="kvm")), "kvm", BAD, "TCG",
        "modprobe kvm_intel"),
    "a guest": (seen(guest_of="QEMU"), "nesting", WARN, "itself a guest (QEMU)", ""),
    "Secure Boot": (
        replace(gpu(driver=None), seen=replace(SEEN, secure_boot=True, modules=())), "firmware",
        WARN, "signed", "mokutil"),
    "a BAR that kept its size": (
        bars(PLACED[0], Bar(0, 0xFFFF, 0x14220C), *PLACED[2:]), "bars", BAD, "BAR 1", "Above 4G"),
    "a BAR that is unset": (
        bars(Bar(1, 2, 0x20000200), *PLACED[1:]), "bars", BAD, "BAR 0", "pci=realloc"),
    "no BARs": (bars(*[NO_BAR] * 7, PLACED[7]), "bars", BAD, "all BARs", "Above 4G"),
    "no BARs of VFs": (bars(PLACED[0], *[NO_BAR] * 12), "bars", BAD, "of its VFs", "SR-IOV"),
    "libvirt 9.6": (
        versions(libvirt="9.6.0"), "libvirt version", BAD, "needs 9.7", "upgrade"),
    "libvirt 10.2": (
        versions(libvirt="10.2.0"), "libvirt version", WARN, "needs 10.3", "upgrade"),
    "no QEMU": (
        facts(versions=replace(FACTS.versions, qemu=""), unknown=(
            UnknownPart(part="qemu", why="none of qemu-system-x86_64 is installed"),)),
        "qemu", BAD, "none of", "role libvirt"),
    "VFs without vGPUs": (
        gpu(vfs=(VfFacts(number=0, address=VF, driver="nvidia"),)), "vgpu driver", BAD,
        "kernel 6.12.43+deb13-amd64 takes no mdevs", "vGPU host driver"),
    "QEMU 8.0": (versions(qemu="8.0.5"), "live migration", WARN, "qemu 8.0.5 (needs 8.1)", ""),
    "kernel 5.17": (
        versions(kernel="5.17.0-1"), "live migration", WARN, "kernel 5.17.0-1 (needs 5.18)", ""),
    "helper gone": (seen(installed=""), "helper", BAD, "not installed", "role helper"),
    "helper old": (
        seen(installed="1"), "helper", BAD, "version 1 is installed, this vgpumgr brings 2",
        "vgpumgr host upgrade h1"),
    "no rule": (
        seen(sudo_rules=()), "sudo", BAD, "no rule", "visudo -f /etc/sudoers.d/vgpumgr"),
    "sudo refused us": (
        seen(unknown=(UnknownPart(part="root", why="no sudo"),), sudo_rules=None), "sudo", BAD,
        "no rule lets gpuadm", f"gpuadm ALL={RULE}"),
    "a broader rule": (
        seen(sudo_rules=(RULE, "(ALL) NOPASSWD: ALL")), "sudo", WARN, "(ALL) NOPASSWD: ALL",
        "grep -rn NOPASSWD"),
    "not at boot": (
        seen(units={RESTORE: WELL, "libvirtd.socket": replace(WELL, enabled="disabled")}),
        "libvirt", WARN, "does not start with the host", "systemctl enable libvirtd"),
    "no restore": (
        unit(RESTORE, load="not-found"), "boot restore", BAD, "not installed", "boot_restore"),
    "restore off": (
        unit(RESTORE, enabled="disabled"), "boot restore", BAD, "disabled", "systemctl enable"),
    "restore failed": (
        unit(RESTORE, result="exit-code"), "boot restore", BAD, "exit-code", "journalctl"),
    "no pool": (facts(pools=()), "storage", BAD, "no storage pool", "pool-define-as"),
    "pool off": (pool(active=False), "storage", BAD, "not active", "virsh pool-start"),
    "9 GiB": (
        pool(available_bytes=9 * GIB, capacity_bytes=20 * GIB), "storage", WARN, "9.0 GiB", "df"),
    "9 %": (
        pool(available_bytes=90 * GIB, capacity_bytes=1000 * GIB), "storage", WARN, "(9%)", "df"),
    "full": (pool(available_bytes=GIB // 2), "storage", BAD, "0.5 GiB", "virsh vol-list"),
    "pool not at boot": (
        seen(pools_at_boot=()), "storage", WARN, "start with the host", "virsh pool-autostart"),
    "ahead": (replace(HEALTHY, clock_offset_s=1.2), "clock", WARN, "1.1 s ahead", "timesyncd"),
    "behind": (replace(HEALTHY, clock_offset_s=-31.0), "clock", BAD, "30.9 s behind", "set-ntp"),
    "no NTP": (seen(synchronised=False), "clock", WARN, "nothing keeps it so", "timedatectl"),
}  # fmt: skip


def test_a_healthy_host_passes_every_check() -> None:
    assert differing(HEALTHY) == {}
    assert len({each.check for each in check_host(HEALTHY)}) == len(CHECKS)


@pytest.mark.parametrize(("changed", "check", "mark", "words", "fix"), CASES.values(), ids=CASES)
def test_one_change_and_that_check_alone_names_it_and_what_helps(
    changed: Examination, check: str, mark: CheckOutcome, words: str, fix: str
) -> None:
    found = differing(changed)
    # Without an IOMMU nothing can be said of what only it does.
    red = {name: each.mark for name, each in found.items() if each.mark is not UNKNOWN}
    assert red == {check: mark}
    assert words in found[check].text
    assert fix in f"{found[check].next} {found[check].by_hand}" or fix in found[check].text


def test_every_check_was_seen_red() -> None:
    assert {each.check for each in check_host(HEALTHY)} == {case[1] for case in CASES.values()}


def test_the_page_on_doctor_has_a_row_for_every_check() -> None:
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert rows[1:] == [each.check for each in check_host(HEALTHY)]


PARTS = [each.name for each in fields(HostSetup) if each.default is None]


@pytest.mark.parametrize("part", PARTS)
def test_what_could_not_be_read_is_never_taken_for_absent(part: str) -> None:
    changed = seen(**{part: None}, unknown=(UnknownPart(part=part, why="Permission denied"),))
    if part == "now":
        changed = replace(changed, clock_offset_s=None)
    found = differing(changed)
    assert {each.mark for each in found.values()} <= {UNKNOWN}
    assert all("Permission denied" in each.text for each in found.values())


def test_a_host_of_which_nothing_was_read_is_unknown_and_not_bad() -> None:
    nothing = HostSetup(unknown=(UnknownPart(part="examine", why="no verb 'examine'"),))
    examination = replace(HEALTHY, seen=nothing, clock_offset_s=None)
    marks = {each.check: each.mark for each in check_host(examination)}
    assert BAD not in marks.values()
    assert sum(mark is UNKNOWN for mark in marks.values()) == 13
    found = {each.check: each.text for each in check_host(examination)}
    assert found["iommu"] == "no verb 'examine'"


@pytest.mark.parametrize(
    ("changed", "check", "words"),
    [
        (facts(kvm=False, unknown=missing("kvm").facts.unknown), "kvm", "it broke"),
        (missing("libvirt"), "storage", "libvirt does not answer"),
        (facts(versions=Versions()), "libvirt version", "did not answer"),
        (facts(versions=Versions(), unknown=missing("qemu").facts.unknown), "qemu", "it broke"),
        (
            facts(versions=Versions()),
            "live migration",
            "no version reported of libvirt, qemu, kernel",
        ),
        (seen(**NO_IOMMU), "interrupt remapping", "no IOMMU"),
        (seen(bars={}), "bars", GPU),
    ],
)
def test_what_the_probe_could_not_read_is_unknown_too(
    changed: Examination, check: str, words: str
) -> None:
    finding = differing(changed)[check]
    assert (finding.mark, words in finding.text) == (UNKNOWN, True)


def test_libvirt_that_does_not_answer_is_bad() -> None:
    finding = differing(missing("libvirt", "refused"))["libvirt"]
    assert (finding.mark, "refused" in finding.text) == (BAD, True)


@pytest.mark.parametrize(
    "changed",
    [
        gpu(group_devices=SHARED, boot_vga=True),
        gpu(vendor_device="1002:7408", vfs=()),
        seen(blacklisted=(), available=("vfio_pci",)),
        seen(modules=("vfio_pci",), available=("vfio_pci",)),
        seen(user="root", sudo_rules=None),
        seen(uefi=False),
        replace(gpu(driver="nvidia"), seen=replace(SEEN, secure_boot=True)),
        replace(HEALTHY, clock_offset_s=3.0, clock_within_s=2.5),
        versions(libvirt="11.3.0", driver=""),
        bars(*PLACED[:6]),
    ],
)
def test_what_is_no_fault(changed: Examination) -> None:
    assert differing(changed) == {}


def test_a_host_that_is_only_looked_at_needs_no_helper_rule_or_unit() -> None:
    changed = replace(
        record(probe_only=True),
        seen=replace(
            SEEN,
            installed="",
            sudo_rules=(),
            units={**UNITS, RESTORE: replace(WELL, load="not-found", enabled="")},
        ),
    )
    assert {name: each.mark for name, each in differing(changed).items()} == {"helper": WARN}


def test_a_simulated_host_is_mended_where_it_was_broken() -> None:
    changed = replace(seen(sudo_rules=()), record=replace(RECORD, address="sim://h1"))
    assert differing(changed)["sudo"].next == "vgpumgr sim inject h1 clear"


@pytest.mark.parametrize(
    ("address", "rules", "place"),
    [
        ("root@h1", None, "root@h1"),
        ("local", (), "local"),
        ("vgpumgr@h1:2222", (), "ADMIN@h1:2222"),
        ("debian@h1", ("(ALL : ALL) NOPASSWD: ALL",), "debian@h1"),
    ],
)
def test_a_host_is_set_up_by_a_user_who_may_do_everything(
    address: str, rules: tuple[str, ...] | None, place: str
) -> None:
    changed = seen(iommus=(), sudo_rules=rules)
    changed = replace(changed, record=replace(RECORD, address=address))
    assert f"--address {place} --bootstrap" in differing(changed)["iommu"].next

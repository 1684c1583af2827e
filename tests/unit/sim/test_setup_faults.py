"""A simulated host set up badly: the helper's ``examine`` reads it, and one check goes red."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.simworld import NEW
from vgpumgr.app.diagnosis import look
from vgpumgr.checks import check_host
from vgpumgr.model.errors import UsageError
from vgpumgr.model.examination import CheckOutcome, Finding
from vgpumgr.model.host import HostRecord
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.injection import SETUP_FAULTS, fault_words

A40 = "0000:41:00.0"
OK, WARN, BAD, UNKNOWN = CheckOutcome.OK, CheckOutcome.WARN, CheckOutcome.BAD, CheckOutcome.UNKNOWN
RECORD = HostRecord(name="h1", address="sim://h1")

# Fault → the check that goes red, and a word of what it found.
RED = {
    "no-iommu-table": ("iommu", BAD, "DMAR or IVRS"),
    "iommu-off": ("iommu", BAD, "the kernel line says iommu=off"),
    "no-remapping": ("interrupt remapping", BAD, "VFIO refuses"),
    "unsafe-interrupts": ("interrupt remapping", WARN, "allow_unsafe_interrupts"),
    "acs-override": ("isolation", WARN, "pcie_acs_override"),
    "nouveau": ("nouveau", BAD, "it is loaded"),
    "no-blacklist": ("nouveau", WARN, "not blacklisted"),
    "no-vfio": ("vfio", BAD, "no vfio-pci"),
    "guest": ("nesting", WARN, "QEMU"),
    "bars": ("bars", BAD, f"{A40}: all BARs"),
    "vf-bars": ("bars", BAD, f"{A40}: the BARs of its VFs"),
    "old-helper": ("helper", BAD, "version 0 is installed"),
    "no-sudo-rule": ("sudo", BAD, "no rule lets gpuadm"),
    "broad-sudo": ("sudo", WARN, "NOPASSWD: ALL"),
    "no-libvirt-at-boot": ("libvirt", WARN, "does not start with the host"),
    "restore-failed": ("boot restore", BAD, "exit-code"),
    "no-pool-at-boot": ("storage", WARN, "does not start with the host"),
    "clock-ahead": ("clock", BAD, "s ahead of"),
    "no-ntp": ("clock", WARN, "no NTP"),
}


def hosts_of(**fields: object) -> InProcessHosts:
    settings: dict[str, object] = {"versions": NEW, **fields}
    host = SimHost(name="h1", boards=(SimBoard(board="A40"),), **settings)  # type: ignore[arg-type]
    hosts = InProcessHosts(SimFleet(name="f", hosts=(host,)), identity=lambda: ("f", 1))
    hosts.fleet.host("h1").install()
    return hosts


@pytest.fixture
def hosts() -> Iterator[InProcessHosts]:
    found = hosts_of()
    yield found
    found.close()


def findings(hosts: InProcessHosts) -> dict[str, Finding]:
    """What is not ok."""
    host = hosts.open(RECORD)
    found = check_host(look(RECORD, host, host.probe()))
    return {each.check: each for each in found if each.mark is not OK}


def inject(hosts: InProcessHosts, *words: str) -> None:
    hosts.fleet.inject("h1", words)


def test_a_simulated_host_is_well(hosts: InProcessHosts) -> None:
    assert findings(hosts) == {}


def test_a_host_whose_clock_was_put_forward_by_waiting_is_not_ahead(hosts: InProcessHosts) -> None:
    hosts.fleet.host("h1").system.wait(3600)
    assert findings(hosts) == {}


def test_every_fault_is_seen() -> None:
    assert RED.keys() == SETUP_FAULTS.keys()


@pytest.mark.parametrize("fault", SETUP_FAULTS)
def test_a_fault_turns_one_check_red_until_it_is_cleared(hosts: InProcessHosts, fault: str) -> None:
    inject(hosts, "setup", fault)
    assert fault_words(hosts.fleet.host("h1")) == (f"setup {fault}",)
    check, mark, words = RED[fault]
    red = {name: each for name, each in findings(hosts).items() if each.mark is not UNKNOWN}
    assert {name: each.mark for name, each in red.items()} == {check: mark}
    assert words in red[check].text
    assert red[check].next in {"", "vgpumgr sim inject h1 clear"}
    inject(hosts, "clear")
    assert (findings(hosts), fault_words(hosts.fleet.host("h1"))) == ({}, ())


def test_a_reboot_mends_it(hosts: InProcessHosts) -> None:
    inject(hosts, "setup", "nouveau")
    inject(hosts, "reboot")
    assert findings(hosts) == {}


def test_an_unknown_fault_names_those_there_are(hosts: InProcessHosts) -> None:
    with pytest.raises(UsageError) as caught:
        inject(hosts, "setup", "gremlins")
    assert "nouveau" in caught.value.next


def test_secure_boot_that_keeps_nvidias_driver_out(hosts: InProcessHosts) -> None:
    kernel = hosts.fleet.host("h1").kernel
    kernel.pci.unbind(kernel.pci.functions[A40])
    del kernel.pci.drivers["nvidia"]
    assert findings(hosts) == {}
    kernel.setup.secure_boot = True
    assert findings(hosts)["firmware"].mark is WARN


@pytest.mark.parametrize(
    ("fields", "check", "mark"),
    [
        ({"iommu": False}, "iommu", BAD),
        ({"kvm": False}, "kvm", WARN),
        ({"pools": ("fast",)}, "storage", BAD),
    ],
)
def test_what_a_fleet_document_says_is_found_too(
    fields: dict[str, object], check: str, mark: CheckOutcome
) -> None:
    hosts = hosts_of(**fields)
    red = {name: each.mark for name, each in findings(hosts).items() if each.mark is not UNKNOWN}
    assert red == {check: mark}
    hosts.close()


def test_a_host_without_the_boot_unit_is_found(hosts: InProcessHosts) -> None:
    hosts.fleet.host("h1").uninstall()
    assert "is not installed" in findings(hosts)["boot restore"].text


def test_a_boot_that_could_not_restore_everything_is_found(hosts: InProcessHosts) -> None:
    uuid = "4b20d080-1b54-4048-85b3-a6a62d165c01"
    wanted = {"kind": "mdev", "parent": A40, "type": "nvidia-1", "uuid": uuid}
    claim = {"fleet": "f", "epoch": 1, "allocation": "a", "generation": 1, "vm": "v"}
    unit = {"unit": f"mdev-{uuid}", **claim, "wanted": wanted}
    system = hosts.fleet.host("h1").system
    system.store(f"/var/lib/vgpumgr/claims/mdev-{uuid}.json", json.dumps(unit))
    inject(hosts, "reboot")
    assert "failed: exit-code" in findings(hosts)["boot restore"].text


def test_libvirt_that_refuses_is_found(hosts: InProcessHosts) -> None:
    inject(hosts, "refuse", "domains.list", "EIO", "9")
    assert {name: each.mark for name, each in findings(hosts).items()} == {
        "libvirt": BAD,
        "libvirt version": UNKNOWN,
        "live migration": UNKNOWN,
        "storage": UNKNOWN,
    }


def test_a_helper_that_refuses_to_examine_makes_no_check_bad(hosts: InProcessHosts) -> None:
    class Old:
        """A helper of an earlier version."""

        def __init__(self) -> None:
            self.real = hosts.open(RECORD)
            self.helper = self

        def call(self, verb: str, args: object) -> dict[str, object]:
            raise UsageError(f"no verb {verb!r}")

    facts = hosts.open(RECORD).probe()
    examination = look(RECORD, Old(), facts)  # type: ignore[arg-type]
    assert examination.seen.installed == facts.versions.helper
    marks = {each.check: each.mark for each in check_host(examination)}
    assert (BAD in marks.values(), marks["iommu"], marks["clock"]) == (False, UNKNOWN, UNKNOWN)

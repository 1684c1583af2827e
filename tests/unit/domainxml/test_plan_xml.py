"""Choices of render: versions, volumes, refusals, libvirt's schema."""

from dataclasses import replace

import pytest
from lxml import etree

from vgpumgr import domainxml
from vgpumgr.domainxml.libvirt_acceptance import SCHEMA_DIR, knows
from vgpumgr.model.domain import (
    DomainNic,
    DomainPlan,
    MdevHostdev,
    Ownership,
    PciHostdev,
    VolumePlan,
)
from vgpumgr.model.host import Versions

PLAN = DomainPlan(
    name="desk-01",
    uuid="6f1c5e4e-8f8e-4d6b-9f29-0f5f1f0c7a01",
    vcpus=2,
    memory_mib=1024,
    accelerator="kvm",
    mmio64_mib=1024,
    ownership=Ownership(fleet="f", vm="desk-01", vm_id="v", generation=1),
)
MDEVS = tuple(MdevHostdev(uuid=f"c1b4e2d0-0001-4000-8000-00000000000{n}") for n in (1, 2))
SHOWN = tuple(replace(mdev, display=True) for mdev in MDEVS)
VF = PciHostdev(address="0000:41:00.4", display=True)


def found(path: str, libvirt: str, **changes: object) -> bool:
    xml = domainxml.render(replace(PLAN, **changes), Versions(libvirt=libvirt))
    return bool(etree.fromstring(xml).xpath(path))


@pytest.mark.parametrize(
    ("path", "changes", "before", "since"),
    [
        ("cpu/maxphysaddr", {}, "8.6.0", "8.7.0"),
        ("os/firmware/feature", {}, "7.1.0", "7.2.0"),
        ("cpu[@mode='maximum']", {"accelerator": "tcg"}, "7.0.0", "7.1.0"),
        (
            "devices/hostdev[@display='on'][@ramfb='on']",
            {"hostdevs": (VF,), "graphics": True},
            "10.2.0",
            "10.3.0",
        ),
    ],
)
def test_what_a_libvirt_does_not_know_is_not_sent_to_it(path, changes, before, since):
    assert not found(path, before, **changes)
    assert found(path, since, **changes)
    assert found(path, "11.3.0", **changes)
    assert not found(path, "", **changes), "an unknown version counts as the oldest"


def test_versions_compare_as_numbers():
    assert knows("10.0.0", "cpu/maxphysaddr")
    assert not knows("8.10-rc1", "cpu/maxphysaddr")


def test_an_old_libvirt_emulates_a_cpu_it_knows():
    assert found("cpu[@mode='custom']/model[.='qemu64']", "7.0.0", accelerator="tcg")


def test_the_hosts_address_width_is_passed_only_under_kvm_and_with_large_bars():
    assert found("cpu/maxphysaddr", "9.0.0")
    assert not found("cpu/maxphysaddr", "9.0.0", accelerator="tcg")
    assert not found("cpu/maxphysaddr", "9.0.0", mmio64_mib=0)
    assert found("devices/controller/pcihole64", "9.0.0", accelerator="tcg")
    assert not found("devices/controller/pcihole64", "9.0.0", mmio64_mib=0)


@pytest.mark.parametrize(
    ("graphics", "hostdevs", "model", "tablet"),
    [
        (False, MDEVS, "none", False),
        (True, (), "vga", True),
        (True, MDEVS, "vga", True),
        (True, SHOWN[:1], "none", True),
    ],
)
def test_the_console_is_drawn_by_the_vgpu_or_a_plain_card_or_nothing(
    graphics, hostdevs, model, tablet
):
    plan = {"graphics": graphics, "hostdevs": hostdevs}
    assert found(f"devices/video/model[@type='{model}']", "9.0.0", **plan)
    assert found("devices/input[@type='tablet']", "9.0.0", **plan) is tablet
    assert found("devices/graphics", "9.0.0", **plan) is graphics


def test_a_libvirt_without_display_on_pci_devices_gets_an_emulated_adapter():
    shown = {"graphics": True, "hostdevs": (VF,)}
    assert found("devices/video/model[@type='vga']", "10.2.0", **shown)
    assert found("devices/video/model[@type='none']", "10.3.0", **shown)


def test_functions_of_one_gpu_share_a_slot_that_no_other_gpu_has():
    first, second = "0000:41:00.0", "0000:81:00.0"
    hostdevs = (
        PciHostdev(address=first),
        PciHostdev(address="0000:41:00.1", follows=first),
        PciHostdev(address="0000:c1:00.0"),
        PciHostdev(address=second),
        PciHostdev(address="0000:81:00.1", follows=second),
    )
    xml = domainxml.render(replace(PLAN, hostdevs=hostdevs), Versions(libvirt="9.0.0"))
    places = [each.find("address") for each in etree.fromstring(xml).iterfind("devices/hostdev")]
    assert [
        None if p is None else (p.get("bus"), p.get("function"), p.get("multifunction"))
        for p in places
    ] == [
        ("0x01", "0x0", "on"),
        ("0x01", "0x1", None),
        None,
        ("0x02", "0x0", "on"),
        ("0x02", "0x1", None),
    ]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"accelerator": "xen"}, "kvm or tcg"),
        ({"firmware": "coreboot"}, "uefi or bios"),
        ({"vcpus": 0}, "positive"),
        ({"memory_mib": 0}, "positive"),
        ({"cpus": (1,)}, "one host CPU per vCPU"),
        ({"hostdevs": SHOWN, "graphics": True}, "at most one"),
        ({"hostdevs": SHOWN[:1]}, "needs graphics"),
        ({"hostdevs": (PciHostdev(address="41:00.0"),)}, "not a PCI address"),
        ({"hostdevs": (SHOWN[0], VF), "graphics": True}, "at most one"),
        ({"hostdevs": (VF,)}, "needs graphics"),
        ({"hostdevs": (PciHostdev(address="0000:41:00.1", follows="0000:41:00.0"),)}, "follows"),
        ({"hostdevs": (MdevHostdev(uuid="x"),)}, "UUID"),
        ({"nics": (DomainNic(mac="m"),)}, "exactly one"),
        ({"nics": (DomainNic(mac="m", network="n", bridge="b"),)}, "exactly one"),
        ({"name": "a\x07"}, "must not"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        domainxml.render(replace(PLAN, **changes), Versions(libvirt="9.0.0"))


@pytest.mark.libvirtd
def test_the_schema_finds_what_libvirt_would_refuse():
    xml = domainxml.render(PLAN, Versions(libvirt="9.0.0"))
    wrong = domainxml.validate(xml.replace("<acpi/>", "<apci/>"))
    assert wrong.checked
    assert any("features" in problem for problem in wrong.problems)
    assert domainxml.validate(xml) == domainxml.Validation()


def test_without_a_schema_nothing_is_claimed(tmp_path):
    answer = domainxml.validate("<domain/>", tmp_path)
    assert answer == domainxml.Validation(problems=(), checked=False)


VOLUME = VolumePlan(pool="default", name="d.qcow2", capacity_bytes=1 << 30, format="qcow2")


@pytest.mark.parametrize("mode", ["fresh", "copy"])
def test_a_volume_of_its_own_has_no_backing_file(mode):
    root = etree.fromstring(domainxml.volume(replace(VOLUME, mode=mode, source="s")))
    assert root.find("backingStore") is None
    assert root.find("target/permissions") is None
    assert (root.findtext("capacity"), root.findtext("allocation")) == (str(1 << 30), "0")
    assert root.find("target/format").get("type") == "qcow2"


def test_an_overlay_declares_its_backing_files_format():
    plan = replace(VOLUME, mode="overlay", source_path="/pool/b.raw", source_format="raw")
    root = etree.fromstring(domainxml.volume(plan))
    assert root.findtext("backingStore/path") == "/pool/b.raw"
    assert root.find("backingStore/format").get("type") == "raw"


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "vmdk"},
        {"capacity_bytes": -1},
        {"mode": "overlay", "source_format": "qcow2"},
        {"mode": "overlay", "source_path": "/pool/b"},
        {"mode": "overlay", "source_path": "/pool/b", "source_format": "raw", "format": "raw"},
    ],
)
def test_a_volume_that_could_be_misread_is_refused(changes):
    with pytest.raises(ValueError, match=r"d\.qcow2"):
        domainxml.volume(replace(VOLUME, **changes))


@pytest.mark.libvirtd
def test_volumes_satisfy_libvirts_schema():
    schema = etree.RelaxNG(etree.parse(SCHEMA_DIR / "storagevol.rng"))
    overlay = replace(VOLUME, mode="overlay", source_path="/pool/b", source_format="qcow2")
    for plan in (VOLUME, overlay, replace(VOLUME, format="raw")):
        assert schema.validate(etree.fromstring(domainxml.volume(plan))), schema.error_log

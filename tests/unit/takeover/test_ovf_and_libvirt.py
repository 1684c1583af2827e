"""OVF descriptors, and domains of libvirt and oVirt, as VMs."""

from __future__ import annotations

from pathlib import Path

import yaml

from vgpumgr import takeover
from vgpumgr.model.vm import GpuRequest
from vgpumgr.spec import load, vm_document
from vgpumgr.takeover import Fate, TakenVm, TakeoverChoices
from vgpumgr.takeover.source_keys import UNKNOWN

CASES = Path(__file__).parents[2] / "cases" / "takeover"


def taken(kind: str, name: str, **chosen: object) -> TakenVm:
    text = (CASES / name).read_text()
    [found] = takeover.read(kind, [(name, text)], TakeoverChoices(**chosen))  # type: ignore[arg-type]
    return found


def fates(found: TakenVm) -> dict[str, Fate]:
    return {each.key: each.fate for each in found.findings}


def accepted(found: TakenVm) -> None:
    assert found.problems == ()
    assert found.spec is not None
    [read] = load(yaml.safe_dump(vm_document(found.spec)), "vm.yaml").vms
    assert read == found.spec


def test_an_ovf_of_vmware_becomes_a_vm() -> None:
    found = taken("ovf", "vmware-cad.ovf", bridges={"VM Network": "br0"})
    accepted(found)
    assert found.spec is not None
    assert (found.name, found.spec.vcpus, found.spec.memory_mib) == ("cad-22", 8, 16384)
    assert found.spec.gpus == (GpuRequest(profile="A40-8Q"),)
    assert (found.spec.firmware, found.spec.secure_boot) == ("uefi", True)
    assert found.spec.uuid == "421a7f3c-905b-2d11-8c4e-609abb012233"
    assert (found.spec.nics[0].mac, found.spec.nics[0].bridge) == ("00:50:56:9a:12:34", "br0")
    [disk] = found.disks
    assert (disk.source.size_bytes, disk.source.stems[0]) == (80 << 30, "CAD-22-1")
    assert disk.source.fetch == "qemu-img convert -O qcow2 ./CAD-22-1.vmdk FOLDER/CAD-22-1.qcow2"
    named = [each.key for each in found.findings]
    assert len(named) == len(set(named))
    assert fates(found)["Item 5"] is Fate.CHANGED
    assert fates(found)["File file2"] is Fate.LOST
    assert fates(found)["AnnotationSection"] is Fate.LOST
    assert UNKNOWN not in {each.text for each in found.findings}


def test_a_disk_of_an_ovf_is_a_file_whatever_its_name_is() -> None:
    """No option of the command that an operator copies, and no other place than this folder."""
    text = (CASES / "vmware-cad.ovf").read_text()
    for name in ("-fraw.vmdk", "nbd:far.example:10809", "../../etc/shadow"):
        hostile = text.replace("CAD-22-1.vmdk", name)
        [found] = takeover.read("ovf", [("cad.ovf", hostile)], TakeoverChoices())
        [disk] = found.disks
        argument = disk.source.fetch.split()[4]
        assert argument == f"./{name.rpartition('/')[2]}"
        assert all("/" not in stem and not stem.startswith("-") for stem in disk.source.stems)


def test_a_network_of_an_ovf_is_not_guessed() -> None:
    found = taken("ovf", "vmware-cad.ovf")
    assert found.problems == (
        "Item 6: nothing says which bridge VM Network is: --bridge 'VM Network=BRIDGE'",
    )


def test_a_domain_of_ovirt_becomes_a_vm() -> None:
    found = taken("libvirt", "ovirt-viz.xml", bridges={"ovirtmgmt": "br0"})
    accepted(found)
    assert found.spec is not None
    assert (found.name, found.spec.vcpus, found.spec.memory_mib) == ("viz-07", 4, 8192)
    assert found.spec.gpus == (GpuRequest(profile="A40-4Q"),)
    assert found.spec.uuid == "6a28e9f6-6627-49b8-8c24-741ab810ecc0"
    assert (found.spec.firmware, found.spec.cpu_model) == ("uefi", "Cascadelake-Server")
    assert (found.spec.agent, found.spec.console) == (True, True)
    assert [each.source.key for each in found.disks] == ["vda", "sda"]
    assert "'/srv/images/viz root.qcow2'" in found.disks[0].source.fetch
    assert found.spec.disks[0].tuning.iops == 1000
    assert found.spec.nics[0].mac == "56:6f:1a:2b:00:07"
    assert found.spec.nics[0].tuning.filter == "no-mac-spoofing"
    told = fates(found)
    assert told["disk vda"] is Fate.KEPT
    assert told["disk sda"] is Fate.CHANGED
    assert told["disk sdc"] is Fate.LOST
    assert told["metadata/vm"] is Fate.LOST
    unknown = [each.key for each in found.findings if each.text == UNKNOWN]
    assert unknown == ["features/vmcoreinfo", "vendor-thing 0"]


def test_an_mdev_of_libvirt_is_what_the_operator_says() -> None:
    text = (CASES / "ovirt-viz.xml").read_text().replace("nvidia-560", "")
    uuid = "c1f343ae-99a5-4d82-9d5c-203cd4b7dac0"
    [found] = takeover.read("libvirt", [("v", text)], TakeoverChoices())
    assert f"nothing says what {uuid} is: --gpu {uuid}=PROFILE" in found.problems[0]
    [found] = takeover.read("libvirt", [("v", text)], TakeoverChoices(gpus={uuid: "A40-4Q"}))
    assert found.spec is not None
    assert found.spec.gpus == (GpuRequest(profile="A40-4Q"),)


def test_nonsense_and_traps_are_problems() -> None:
    trap = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><domain>&x;</domain>'
    for kind in ("ovf", "libvirt"):
        for text in ("", "<a/>", "<domain", trap, "x" * (1 << 21)):
            [found] = takeover.read(kind, [("x", text)], TakeoverChoices())
            assert found.problems
            assert found.spec is None
            assert "passwd" not in repr(found)
    kernel = "<name>a</name><memory>1</memory><os><kernel>/k</kernel></os>"
    kernel = f"<domain type='lxc'>{kernel}</domain>"
    [found] = takeover.read("libvirt", [("x", kernel)], TakeoverChoices())
    assert "not of QEMU" in found.problems[0]
    assert "kernel of its host's" in found.problems[1]

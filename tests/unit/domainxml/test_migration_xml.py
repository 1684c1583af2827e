"""A domain's XML for another host: what changes, and that nothing else does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vgpumgr import domainxml
from vgpumgr.model.domain import (
    DomainDisk,
    DomainPlan,
    Hostdev,
    MdevHostdev,
    NumaSeat,
    NumaShare,
    Ownership,
    PciHostdev,
)
from vgpumgr.model.host import Versions

NEW = Versions(libvirt="11.3.0", qemu="10.0.2")
FIRST, SECOND = "4b20d080-1b54-4048-85b3-a6a62d165c01", "4b20d080-1b54-4048-85b3-a6a62d165c02"
VF, OTHER_VF = "0000:41:00.4", "0001:c1:02.7"
HERE = Ownership(fleet="f", vm="web", vm_id="v-1", generation=3, allocations=("a-1",))
THERE = replace(HERE, generation=4, allocations=("a-2", "a-3"))


ON_0, ON_1 = (
    NumaSeat(shares=(NumaShare(node=node, cpus=cpus),), strict=True)
    for node, cpus in ((0, (0, 1, 2, 3)), (1, (4, 5, 6, 7)))
)
SPREAD = NumaSeat(
    shares=(
        NumaShare(node=0, cpus=(0, 1, 2, 3), vcpus=(0,), memory_mib=512),
        NumaShare(node=1, cpus=(4, 5, 6, 7), vcpus=(1,), memory_mib=512),
    )
)


def rendered(*devices: Hostdev, **fields: Any) -> str:
    disk = DomainDisk(path="/pool/disk.qcow2", format="qcow2", target="vda")
    defaults: dict[str, Any] = {"vcpus": 2, "memory_mib": 1024, "ownership": HERE, "disks": (disk,)}
    plan = DomainPlan(
        name="web",
        uuid="11111111-1111-4111-8111-111111111111",
        accelerator="kvm",
        labels={"team": "x"},
        hostdevs=devices,
        **(defaults | fields),
    )
    return domainxml.render(plan, NEW)


def moved(xml: str, **changes: Any) -> str:
    defaults: dict[str, Any] = {"devices": {}, "files": {}, "ownership": THERE}
    return domainxml.moved(xml, **(defaults | changes))


def test_a_domain_moved_is_the_one_that_would_be_made_there() -> None:
    disk = DomainDisk(path="/other/disk.qcow2", format="qcow2", target="vda")
    there = rendered(
        MdevHostdev(uuid=SECOND),
        PciHostdev(address=OTHER_VF),
        ownership=THERE,
        cpus=(6, 7),
        seat=ON_1,
        disks=(disk,),
    )
    here = rendered(MdevHostdev(uuid=FIRST), PciHostdev(address=VF), cpus=(0, 1), seat=ON_0)
    got = moved(
        here,
        devices={FIRST: SECOND, VF: OTHER_VF},
        files={"/pool/disk.qcow2": "/other/disk.qcow2"},
        cpus=(6, 7),
        seat=ON_1,
    )
    assert domainxml.differences(there, got) == ()
    assert domainxml.differences(got, there) == ()
    assert domainxml.parse(got) == domainxml.parse(there)


def test_pinning_that_the_target_does_not_ask_for_is_gone() -> None:
    got = moved(rendered(cpus=(0, 1), seat=ON_0))
    assert domainxml.differences(rendered(ownership=THERE), got) == ()
    assert "vcpupin" not in got
    assert "numatune" not in got


def test_other_tuning_stays() -> None:
    xml = rendered(cpus=(0, 1)).replace("<cputune>", "<cputune><shares>2048</shares>")
    got = moved(xml, cpus=(4, 5))
    assert "<shares>2048</shares>" in got
    assert got.count("vcpupin") == 2
    assert "<shares>2048</shares>" in moved(xml)


def test_what_the_guest_sees_of_a_device_stays() -> None:
    seen = '<address type="pci" domain="0x0000" bus="0x05" slot="0x00" function="0x0"/>'
    before, source, after = rendered(MdevHostdev(uuid=FIRST)).partition(f'uuid="{FIRST}"/>')
    xml = before + source + after.replace("</source>", f"</source>{seen}", 1)
    got = moved(xml, devices={FIRST: SECOND})
    assert seen in got
    assert FIRST not in got


def test_the_backing_chain_of_a_running_domain_is_followed() -> None:
    chain = (
        '<backingStore type="file"><format type="qcow2"/><source file="/pool/base.qcow2"/>'
        "<backingStore/></backingStore>"
    )
    xml = rendered().replace('<target dev="vda"', f'{chain}<target dev="vda"')
    files = {"/pool/disk.qcow2": "/p/disk.qcow2", "/pool/base.qcow2": "/p/base.qcow2"}
    got = moved(xml, files=files)
    assert "/pool/" not in got
    assert "/p/base.qcow2" in got


def test_an_mdev_becomes_a_vf_and_a_vf_an_mdev() -> None:
    as_mdev, as_vf = rendered(MdevHostdev(uuid=FIRST)), rendered(PciHostdev(address=VF))
    there = moved(as_mdev, devices={FIRST: VF})
    assert domainxml.parse(there).devices == (VF,)
    assert domainxml.differences(moved(as_vf, devices={VF: VF}), there) == ()
    assert domainxml.validate(there, libvirt="11.3.0").problems == ()
    back = moved(there, devices={VF: FIRST})
    assert domainxml.parse(back).devices == (FIRST,)
    assert domainxml.validate(back, libvirt="11.3.0").problems == ()


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ({}, "no counterpart"),
        ({FIRST: SECOND, VF: OTHER_VF}, "does not have it"),
        ({FIRST: "nonsense"}, "nonsense"),
    ],
)
def test_every_device_has_one_counterpart(devices: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        moved(rendered(MdevHostdev(uuid=FIRST)), devices=devices)


def test_labels_stay_and_the_mark_is_new() -> None:
    got = moved(rendered())
    assert 'name="team"' in got
    assert domainxml.parse(got).ownership == THERE


def test_what_is_not_ours_is_not_moved() -> None:
    with pytest.raises(ValueError, match="our mark"):
        moved("<domain><name>foreign</name><vcpu>1</vcpu></domain>")


def test_as_many_cpus_as_vcpus() -> None:
    with pytest.raises(ValueError, match="1 host CPUs for 2 vCPUs"):
        moved(rendered(), cpus=(3,))


def test_a_path_with_a_control_character_is_refused() -> None:
    with pytest.raises(ValueError, match="contains"):
        moved(rendered(), files={"/pool/disk.qcow2": "/pool/\x01"})


def test_a_nic_on_a_vf_is_not_moved() -> None:
    nic = (
        '<interface type="hostdev"><source><address type="pci" domain="0" bus="0x41" slot="0" '
        'function="0x4"/></source></interface></devices>'
    )
    with pytest.raises(ValueError, match="interface"):
        moved(rendered().replace("</devices>", nic), devices={VF: OTHER_VF})


def test_cells_of_the_guest_stay_and_are_bound_to_nodes_there() -> None:
    other = NumaSeat(shares=(replace(SPREAD.shares[0], node=4), replace(SPREAD.shares[1], node=5)))
    got = moved(rendered(seat=SPREAD), seat=other)
    assert domainxml.differences(rendered(seat=other, ownership=THERE), got) == ()
    assert domainxml.differences(got, rendered(seat=other, ownership=THERE)) == ()


def test_cells_of_the_guest_come_together_on_one_node() -> None:
    got = moved(rendered(seat=SPREAD), seat=ON_1)
    assert got.count("<cell ") == 2
    assert got.count('mode="strict" nodeset="1"') == 2
    assert 'cpuset="4-7"' in got
    assert "vcpupin" not in got


def test_a_guest_without_cells_is_bound_to_no_memory_where_its_seat_has_two_nodes() -> None:
    got = moved(rendered(seat=ON_0), seat=SPREAD)
    assert "numatune" not in got
    assert 'cpuset="0-7"' in got
    assert "<cell" not in got

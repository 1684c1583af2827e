"""The product on one host with real kernel devices, used only by its command line.

Everything else here is done with the host's own tools: looking at sysfs, virsh and mdevctl. The
``vgpumgr`` fixture deletes all VMs after each test and compares the host with the dump taken
after ``host add``: drivers, overrides, VFs, types, mdevs, domains, node devices, volumes, claims.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.lab.labhost import LabHost, Vgpumgr

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

DISPLAY_MODEL = "1234:1111"
SECOND = "0000:02:00.0"
DISPLAYS = {"0000:01:00.0", SECOND, "0000:03:00.0"}
CANNOT_BE_PLACED = 5
NOT_FOUND = 3


def wants(name: str, profile: str, count: int = 1, **more: object) -> dict[str, object]:
    return {"name": name, "gpus": [{"profile": profile, "count": count}], **more}


def whole(name: str) -> dict[str, object]:
    return {"name": name, "gpus": [{"profile": "passthrough", "model": DISPLAY_MODEL}]}


def devices(vgpumgr: Vgpumgr, name: str) -> list[str]:
    return [gpu["device"] for gpu in vgpumgr.vms()[name]["gpus"]]


def available(lab: LabHost, parent: str) -> dict[str, int]:
    found = lab.dump()["available"]
    names = {key.split()[1]: int(value) for key, value in found.items() if key.startswith(parent)}
    assert names
    return names


@pytest.mark.parametrize(
    ("parent", "profile"), [("mbochs", "mbochs-medium"), ("mtty", "mtty-2")], ids=["mbochs", "mtty"]
)
def test_a_vm_gets_a_real_mediated_device(
    lab: LabHost, vgpumgr: Vgpumgr, parent: str, profile: str
) -> None:
    before = available(lab, parent)
    file = vgpumgr.file(wants("desk", profile, disks=[{"size": "64MiB"}]))
    vgpumgr("apply", "-f", file)

    (device,) = devices(vgpumgr, "desk")
    path = f"/sys/bus/mdev/devices/{device}"
    assert lab.root(f"realpath {path}") == f"/sys/devices/virtual/{parent}/{parent}/{device}"
    assert lab.root(f"basename $(readlink {path}/mdev_type)") == profile
    assert available(lab, parent)[profile] == before[profile] - 1
    assert lab.virsh("domstate desk") == "running"
    assert device in lab.virsh("dumpxml desk")
    assert lab.vfio_groups_of("desk") == {lab.group_of(device)}
    assert "nothing to change" in vgpumgr("apply", "-f", file).out

    vgpumgr("vm", "stop", "desk", "--force")
    assert lab.virsh("domstate desk") == "shut off"
    assert lab.dump()["mdevs"] == [device], "a stopped VM keeps its GPU part"
    vgpumgr("vm", "start", "desk")
    assert lab.vfio_groups_of("desk") == {lab.group_of(device)}

    vgpumgr("delete", "-f", file, "-y", "--force")
    assert vgpumgr.vms() == {}
    assert available(lab, parent) == before


def test_two_vms_share_one_budget_and_the_third_is_refused_before_the_kernel_would(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    """Four large and sixteen medium make the same 256 MiB: 2 large + (1 large + 4 medium)."""
    mixed = {
        "name": "mixed",
        "gpus": [{"profile": "mbochs-large"}, {"profile": "mbochs-medium", "count": 4}],
    }
    both = [wants("large", "mbochs-large", 2), mixed]
    vgpumgr("apply", "-f", vgpumgr.file(*both))
    assert set(available(lab, "mbochs").values()) == {0}
    held = lab.dump()

    file = vgpumgr.file(*both, wants("late", "mbochs-small"))
    plan = vgpumgr("plan", "-f", file, "-o", "json", code=CANNOT_BE_PLACED).json
    (refused,) = plan["unplaced"]
    reasons = {each["code"]: each["text"] for each in refused["reasons"]}
    assert refused["vm"] == "late"
    assert "offers 0 more mbochs-small" in reasons["driver-available"], reasons
    vgpumgr("apply", "-f", file, code=CANNOT_BE_PLACED)
    assert lab.dump() == held, "a refused apply changes nothing"
    assert set(vgpumgr.vms()) == {"large", "mixed"}

    by_hand = lab.attempt(f"echo {uuid.uuid4()} > {lab.create_file('mbochs', 'mbochs-small')}")
    assert by_hand.returncode != 0, "the kernel refuses as well"
    assert lab.dump() == held

    vgpumgr("vm", "delete", "mixed", "-y", "--force")
    vgpumgr("apply", "-f", vgpumgr.file(both[0], wants("late", "mbochs-small")))
    assert set(vgpumgr.vms()) == {"large", "late"}


def drivers(lab: LabHost) -> list[str]:
    seen = lab.dump()["functions"]
    return [seen[each]["driver"] for each in sorted(DISPLAYS)]


def test_a_whole_display_goes_into_a_vm_and_back_to_its_driver(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    before = drivers(lab)
    vgpumgr("apply", "-f", vgpumgr.file(whole("one")))
    (address,) = devices(vgpumgr, "one")
    seen = lab.dump()["functions"]
    assert address in DISPLAYS
    assert seen[address]["driver"] == seen[address]["driver_override"] == "vfio-pci"
    assert lab.virsh("domstate one") == "running"
    assert lab.vfio_groups_of("one") == {lab.group_of(address)}

    names = ("one", "two", "three")
    file = vgpumgr.file(*map(whole, names), whole("four"))
    (refused,) = vgpumgr("plan", "-f", file, "-o", "json", code=CANNOT_BE_PLACED).json["unplaced"]
    assert sum(each["code"] == "in-use" for each in refused["reasons"]) == 3
    vgpumgr("apply", "-f", vgpumgr.file(*map(whole, names)))
    assert {device for name in names for device in devices(vgpumgr, name)} == DISPLAYS

    vgpumgr("vm", "delete", *names, "-y", "--force")
    assert drivers(lab) == before


FOREIGN_DOMAIN = """
<domain type='qemu'>
  <name>stranger</name>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os><type machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <video><model type='none'/></video>
    <hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
      <source><address uuid='{mdev}'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <source><address domain='0' bus='{bus}' slot='0' function='0'/></source>
    </hostdev>
  </devices>
</domain>
"""


@contextmanager
def strangers(lab: LabHost) -> Iterator[tuple[str, str, str]]:
    """Made by hand: an mdev in a running domain that also has a whole display, an mdev that
    nobody uses, and one that is only defined. Yields the three UUIDs."""
    held, idle, defined = (str(uuid.uuid4()) for _ in range(3))
    with ExitStack() as undo:
        lab.make_mdev("mbochs", "mbochs-large", held)
        undo.callback(lab.drop_mdev, held)
        lab.root(f"mdevctl start --uuid {idle} --parent mtty --type mtty-2")
        undo.callback(lab.drop_mdev, idle)
        lab.root(f"mdevctl define --uuid {defined} --parent mtty --type mtty-1")
        undo.callback(lab.root, f"mdevctl undefine --uuid {defined}")
        lab.virsh("nodedev-detach pci_0000_02_00_0")
        undo.callback(lab.virsh, "nodedev-reattach pci_0000_02_00_0")
        lab.virsh("define /dev/stdin", stdin=FOREIGN_DOMAIN.format(mdev=held, bus=2))
        undo.callback(lab.virsh, "undefine stranger")
        lab.virsh("start stranger")
        undo.callback(lab.virsh, "destroy stranger")
        yield held, idle, defined


def test_what_others_made_is_shown_as_foreign_and_left_alone(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    with strangers(lab) as (held, idle, defined):
        vgpumgr("host", "probe", lab.name)
        with_strangers = lab.dump()
        assert {held, idle} == set(with_strangers["mdevs"])
        assert defined in str(with_strangers["mdev definitions"])

        domain = vgpumgr.vms()["stranger"]
        assert (domain["owner"], domain["power"]) == ("foreign", "running")
        assert {gpu["device"] for gpu in domain["gpus"]} == {held, SECOND}
        assert vgpumgr.strangers_on("mbochs") == [(f"mdev {held}", 16)]
        assert vgpumgr.strangers_on("mtty") == [(f"mdev {idle}", 2)]
        assert "stranger" in vgpumgr.strangers_on(SECOND)[0][0]

        vgpumgr("vm", "delete", "stranger", "-y", "--force", code=NOT_FOUND)
        file = vgpumgr.file(wants("ours", "mbochs-large", 3), wants("port", "mtty-1"))
        vgpumgr("apply", "-f", file)
        free = vgpumgr.file(whole("gpu1"), whole("gpu2"))
        vgpumgr("apply", "-f", free)
        assert {*devices(vgpumgr, "gpu1"), *devices(vgpumgr, "gpu2")} == DISPLAYS - {SECOND}
        too_much = vgpumgr.file(wants("more", "mbochs-small"), whole("gpu3"))
        plan = vgpumgr("plan", "-f", too_much, "-o", "json", code=CANNOT_BE_PLACED).json
        assert [each["vm"] for each in plan["unplaced"]] == ["more", "gpu3"]

        vgpumgr("vm", "delete", "ours", "port", "gpu1", "gpu2", "-y", "--force")
        assert lab.settled(with_strangers) == with_strangers
        assert lab.virsh("domstate stranger") == "running"
        assert lab.vfio_groups_of("stranger") >= {lab.group_of(held)}
    vgpumgr("host", "probe", lab.name)
    assert vgpumgr.vms() == {}


def test_after_enrolment_the_helpers_own_sudo_rule_is_all_that_is_left(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    rules = lab.root("sudo -l -U vgpumgr | grep NOPASSWD")
    assert rules.split() == ["(root)", "NOPASSWD:", "/usr/local/lib/vgpumgr/vgpumgr-helper", '""']
    vgpumgr("host", "probe", lab.name)
    (host,) = vgpumgr("host", "list", "-o", "json").json["items"]
    assert (host["state"], host["unknown"], host["iommu"]) == ("ready", [], True)

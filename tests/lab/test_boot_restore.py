"""The power of a real host is cut: devices, VFs, types and marked VMs are back, unasked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.labhost import LabHost, Vgpumgr

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

UNIT = "vgpumgr-restore.service"
TYPED = "0000:05:00.0"  # a PF whose VFs imitate NVIDIA's
VFS = 4


@pytest.fixture
def cut(lab: LabHost, vgpumgr: Vgpumgr, tmp_path: Path) -> Iterator[str]:
    """VFs on by a layout; the profile of a type that they take. Off again afterwards."""
    yield apply_vfs(lab, vgpumgr, tmp_path, VFS)
    vgpumgr.delete_all()
    apply_vfs(lab, vgpumgr, tmp_path, 0)


def apply_vfs(lab: LabHost, vgpumgr: Vgpumgr, folder: Path, count: int) -> str:
    rule = {"devices": [TYPED], "vfs": count}
    document = {"apiVersion": "vgpumgr/v1", "kind": "Layout", "name": "cut", "hosts": [lab.name]}
    path = folder / "layout.yaml"
    path.write_text(json.dumps({**document, "gpus": [rule]}))
    vgpumgr("layout", "apply", "-f", str(path), "-y")
    listed = f"cat /sys/bus/pci/devices/{TYPED}/virtfn0/nvidia/creatable_vgpu_types"
    found = re.findall(r"^\d+ *: (\S.*)$", lab.root(listed), re.M) if count else [""]
    return found[0].removeprefix("NVIDIA ").removeprefix("GRID ")


def running(lab: LabHost) -> set[str]:
    return set(lab.virsh("list --name").split())


def numberless(dump: dict[str, Any]) -> dict[str, Any]:
    """The kernel numbers IOMMU groups anew."""
    return {name: found for name, found in dump.items() if name != "vfio groups"}


def restored(lab: LabHost) -> list[str]:
    """The lines that the unit wrote at this boot."""
    assert lab.root(f"systemctl is-active {UNIT}") == "active"
    text = lab.root(f"journalctl --boot --unit {UNIT} --output cat --no-pager")
    return re.findall(r"^restored (\S+)$", text, re.M)


@pytest.mark.bounded
def test_mdevs_vfs_and_types_are_back_and_marked_vms_run(
    lab: LabHost, vgpumgr: Vgpumgr, cut: str
) -> None:
    vms: tuple[dict[str, Any], ...] = (
        {"name": "marked", "gpus": [{"profile": "mtty-1"}], "autostart": True},
        {"name": "typed", "gpus": [{"profile": cut}], "autostart": True},
        {"name": "off", "gpus": [{"profile": "mtty-2"}]},
    )
    vgpumgr("apply", "-f", vgpumgr.file(*vms))
    vgpumgr("vm", "stop", "off", "--force")
    before, claims = lab.dump(), lab.root("ls /var/lib/vgpumgr/claims")
    devices = {vm["name"]: vm["gpus"] for vm in vgpumgr.vms().values()}
    lab.cut_power()  # firmware alone never shuts down: libvirt-guests would wait for it
    assert {f"{unit}.json" for unit in restored(lab)} == set(claims.split())
    assert numberless(lab.dump()) == numberless(before)
    assert running(lab) == {"marked", "typed"}
    vgpumgr("layout", "assert")
    vgpumgr("diff", "-f", vgpumgr.file(*vms[:2]))
    vgpumgr("drift")
    assert {vm["name"]: vm["gpus"] for vm in vgpumgr.vms().values()} == devices
    vgpumgr("vm", "start", "off")
    assert running(lab) == {"marked", "typed", "off"}


def test_a_second_restore_changes_nothing(lab: LabHost, vgpumgr: Vgpumgr, cut: str) -> None:
    vgpumgr("apply", "-f", vgpumgr.file({"name": "typed", "gpus": [{"profile": cut}]}))
    before = lab.dump()
    for _ in range(2):
        lab.root("/usr/local/lib/vgpumgr/vgpumgr-helper --restore")
        assert lab.dump() == before
    assert running(lab) == {"typed"}

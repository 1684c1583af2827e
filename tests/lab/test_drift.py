"""A second terminal changes a real host with virsh, mdevctl and sysfs: ``drift`` names it all."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.lab.labhost import LabHost, Vgpumgr

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

DIFFERS = 10
SEEN_WITHIN_S = 60.0


@dataclass(frozen=True)
class Bench:
    """VM web on the host, and what a second terminal can do to it."""

    lab: LabHost
    vgpumgr: Vgpumgr

    @property
    def device(self) -> str:
        (gpu,) = self.vgpumgr.vms()["web"]["gpus"]
        return str(gpu["device"])

    @property
    def parent(self) -> str:
        (gpu,) = self.vgpumgr.vms()["web"]["gpus"]
        return str(gpu["parent"])

    def off(self) -> None:
        self.lab.virsh("destroy web")

    def edit(self, pattern: str, text: str) -> None:
        """``virsh edit``, by hand of sed."""
        old = self.lab.virsh("dumpxml --inactive web")
        new = re.sub(pattern, text, old)
        assert new != old
        self.lab.virsh("define /dev/stdin", stdin=new)

    def named(self) -> dict[str, str]:
        """Kinds and texts of all differences, and that it took less than a minute to see them."""
        start = time.monotonic()
        items = self.vgpumgr("drift", "-o", "json", code=DIFFERS).json["items"]
        assert time.monotonic() - start < SEEN_WITHIN_S
        assert all(item["next"] for item in items)
        return {item["kind"]: item["text"] for item in items}


def undefined(b: Bench) -> None:
    b.off()
    b.lab.virsh("undefine web")


def mdev_removed(b: Bench) -> None:
    b.off()
    b.lab.root(f"mdevctl stop -u {b.device}")


def volume_deleted(b: Bench) -> None:
    b.off()
    volume, _ = b.vgpumgr.vms()["web"]["volumes"]
    b.lab.virsh(f"vol-delete {volume['name']} {volume['pool']}")


def memory(b: Bench) -> None:
    b.edit(r"(<(memory|currentMemory) unit='KiB'>)\d+", r"\g<1>131072")


MDEV: dict[str, tuple[Callable[[Bench], object], set[str]]] = {
    "destroy": (Bench.off, {"power"}),
    "suspend": (lambda b: b.lab.virsh("suspend web"), {"power"}),
    "undefine": (undefined, {"domain-missing"}),
    "undefine of a running one": (lambda b: b.lab.virsh("undefine web"), {"domain-transient"}),
    "edit": (memory, {"definition"}),
    "autostart": (lambda b: b.lab.virsh("autostart web"), {"definition"}),
    "change-media": (
        lambda b: b.lab.virsh("change-media web sda --eject --live --force"),
        {"attached"},
    ),
    "mdevctl stop": (mdev_removed, {"power", "device-missing"}),
    "vol-delete": (volume_deleted, {"power", "volume-missing"}),
    "claim removed": (
        lambda b: b.lab.root(f"rm /var/lib/vgpumgr/claims/mdev-{b.device}.json"),
        {"claim-missing"},
    ),
}


@pytest.mark.parametrize("name", MDEV)
def test_what_is_done_to_a_vm_with_an_mdev_is_named(
    name: str, lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    bench = made(lab, vgpumgr, "mtty-1")
    change, kinds = MDEV[name]
    claim = f"/var/lib/vgpumgr/claims/mdev-{bench.device}.json"
    kept = lab.root(f"cat {claim}")
    change(bench)
    assert set(bench.named()) == kinds
    # What our deletion afterwards needs, put back by the same hand.
    lab.root(f"test -e {claim} || cat > {claim}", kept)


def test_a_foreign_mdev_is_named_while_it_is_there(lab: LabHost, vgpumgr: Vgpumgr) -> None:
    bench = made(lab, vgpumgr, "mtty-1")
    stranger = str(uuid.uuid4())
    lab.root(f"mdevctl start -u {stranger} -p {bench.parent} -t mtty-1")
    try:
        assert stranger in bench.named()["foreign"]
        vgpumgr("drift", "--ignore-foreign")
    finally:
        lab.root(f"mdevctl stop -u {stranger}")
    vgpumgr("drift")


def test_a_whole_function_on_its_own_driver_again_is_named(lab: LabHost, vgpumgr: Vgpumgr) -> None:
    bench = made(lab, vgpumgr, "passthrough")
    address = bench.device
    bench.off()
    lab.virsh(f"nodedev-reattach pci_{address.replace(':', '_').replace('.', '_')}")
    found = bench.named()
    assert set(found) == {"power", "device-driver"}
    assert address in found["device-driver"]
    vgpumgr("vm", "start", "web")
    vgpumgr("drift")


def made(lab: LabHost, vgpumgr: Vgpumgr, profile: str) -> Bench:
    """VM web, running, and nothing that differs."""
    gpu = {"profile": profile}
    if profile == "passthrough":
        gpu["model"] = "1234:1111"
    web = {"name": "web", "gpus": [gpu], "disks": [{"size": "64MiB"}]}
    vgpumgr("apply", "-f", vgpumgr.file({**web, "cloud_init": {"user_data": "#cloud-config\n"}}))
    assert json.loads(vgpumgr("drift", "-o", "json").out)["items"] == []
    return Bench(lab, vgpumgr)

"""A pool of four desktops with mediated devices on a real host, from a small image of ours.

The guest is the boot sector that counts: Linux in a guest of an emulated host takes minutes.
"""

from __future__ import annotations

import json
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.counter import BOOT_SECTOR
from tests.lab.labhost import LabHost, Vgpumgr
from tests.vncviewer import Viewer

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

# An image's versions are never reused: a lab that is used again has those of other runs.
POOL, IMAGE = "office", f"counter-{secrets.token_hex(2)}"
DESKTOPS = 4
SOON_S = 900.0
POLL_S = 2.0
REFUSED = 4


def image_file(folder: Path, version: int) -> str:
    """A disk whose boot sector counts; the rest is noise, so that versions differ."""
    path = folder / f"{IMAGE}-{version}.raw"
    path.write_bytes(BOOT_SECTOR + secrets.token_bytes((4 << 20) - len(BOOT_SECTOR)))
    return str(path)


def pool_file(folder: Path) -> str:
    document = {
        "apiVersion": "vgpumgr/v1",
        "kind": "Pool",
        "name": POOL,
        "image": f"{IMAGE}@1",
        "gpus": [{"profile": "mtty-1"}],
        "vcpus": 1,
        "memory": "128MiB",
        "firmware": "bios",
        "console": True,
        "entitlement": {"groups": ["staff"]},
        "min": DESKTOPS,
        "spare": 1,
        "max": DESKTOPS,
        "update": {"step": 2, "soak": "5s"},
    }
    path = folder / "pool.yaml"
    path.write_text(json.dumps(document))
    return str(path)


@contextmanager
def serving(vgpumgr: Vgpumgr, folder: Path) -> Iterator[None]:
    """`vgpumgr serve` beside; what it told is in a file if the test fails."""
    with vgpumgr.begin("serve") as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=SOON_S)
            (folder / "serve.txt").write_text(f"{out}\n{err}")
    assert process.returncode == 0, f"{out}\n{err}"


def desktops(vgpumgr: Vgpumgr) -> dict[str, dict[str, Any]]:
    shown = vgpumgr("pool", "show", POOL, "-o", "json").json
    return {each["name"]: each for each in shown["items"]}


def until(vgpumgr: Vgpumgr, wanted: Callable[[dict[str, dict[str, Any]]], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not wanted(found := desktops(vgpumgr)):
        assert time.monotonic() < deadline, json.dumps(found, indent=1)
        time.sleep(POLL_S)


def all_ready_on(version: int) -> Callable[[dict[str, dict[str, Any]]], bool]:
    """All of them run, on that version of the image."""

    def are(found: dict[str, dict[str, Any]]) -> bool:
        states = [(each["state"], each["image"]) for each in found.values()]
        return states == [("ready", f"{IMAGE}@{version}")] * DESKTOPS

    return are


def bases(lab: LabHost) -> set[str]:
    """The volumes that the domains' first disks lie over."""
    found = set()
    for name in lab.virsh("list --name").split():
        disk = lab.root(f"virsh -c qemu:///system -q domblklist {name}").split()[1]
        found.add(lab.root(f"qemu-img info -U {disk} | sed -n 's/^backing file: *//p'"))
    return found


def test_a_day_of_a_pool(lab: LabHost, vgpumgr: Vgpumgr, tmp_path: Path) -> None:
    before = lab.dump()
    for version in (1, 2):
        file = image_file(tmp_path, version)
        vgpumgr("image", "import", file, "--name", IMAGE, "--format", "raw", "--host", lab.name)
    vgpumgr("apply", "-f", pool_file(tmp_path))
    with serving(vgpumgr, tmp_path):
        until(vgpumgr, all_ready_on(1))
        assert len(lab.virsh("list --name").split()) == DESKTOPS
        assert len(lab.dump()["mdevs"]) == DESKTOPS
        assert len(bases(lab)) == 1
        old = bases(lab)

        given = vgpumgr("pool", "assign", POOL, "ada", "--group", "staff", "-o", "json").json
        desktop = given["desktop"]
        ticket = vgpumgr("pool", "connect", POOL, "ada", "-o", "json").json
        with Viewer(ticket["address"]) as viewer:
            assert viewer.log_in(ticket["password"]) == ""
            screen = viewer.screen()
            assert desktop in screen.name
            assert len(viewer.picture(8, 8)) >= 8 * 8 * 4  # QEMU sends all that is new
        first = vgpumgr("vm", "show", desktop, "-o", "json").json["id"]

        lab.cut_power()
        until(vgpumgr, lambda _: len(lab.virsh("list --name").split()) == DESKTOPS)
        until(vgpumgr, all_ready_on(1))
        assert vgpumgr("vm", "show", desktop, "-o", "json").json["id"] == first
        assert desktops(vgpumgr)[desktop]["user"] == "ada", "a reboot ends no session"
        assert "desktop of pool" in vgpumgr("vm", "delete", desktop, "-y", code=REFUSED).err

        vgpumgr("pool", "release", POOL, "ada")
        until(vgpumgr, lambda _: vgpumgr.vms().get(desktop, {}).get("id", first) != first)
        until(vgpumgr, all_ready_on(1))

        vgpumgr("pool", "push-image", POOL, f"{IMAGE}@2")
        until(vgpumgr, all_ready_on(2))
        assert bases(lab).isdisjoint(old)
        vgpumgr("drift")

        vgpumgr("pool", "delete", POOL, "-y")
        until_gone(vgpumgr)
    vgpumgr("host", "uncordon", lab.name)  # no controller looks after its boots any more
    for version in (1, 2):
        vgpumgr("image", "retire", f"{IMAGE}@{version}", "--delete-copies", "-y")
    assert lab.settled(before) == before


def until_gone(vgpumgr: Vgpumgr) -> None:
    deadline = time.monotonic() + SOON_S
    while vgpumgr("pool", "list", "-o", "json").json["items"]:
        assert time.monotonic() < deadline
        time.sleep(POLL_S)

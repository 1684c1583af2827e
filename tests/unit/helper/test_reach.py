"""What whoever may call the helper can reach with it: GPUs and storage pools, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.helper.host import AUDIO, CLAIM, GPU, PCI, FakeHost, done, gpu_host, refused
from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.system import System

OTHER = "0000:05:00.0"
NVME, NIC, BRIDGE, USB = "010802", "020000", "060400", "0c0330"
STATE = "/var/lib/vgpumgr"


@pytest.fixture
def host() -> FakeHost:
    return gpu_host()


def stranger(host: FakeHost, kind: str, address: str = OTHER, group: int = 30) -> str:
    return host.add_function(address, kind=kind, driver=f"driver-{kind}", group=group)


def untouched(host: FakeHost) -> bool:
    return not host.claims() and not [path for what, path in host.log if what == "write"]


# -- PCI functions


@pytest.mark.parametrize("kind", [NVME, NIC, BRIDGE, USB, "040300", "120100", "0c0500"])
def test_only_gpus_are_taken_from_their_drivers(host: FakeHost, kind: str) -> None:
    """The disk that the host boots from, say."""
    stranger(host, kind)
    error = refused(host, "vfio_bind", address=OTHER, claim=CLAIM)
    assert (error["code"], error["message"]) == ("refused", f"{OTHER} is not a GPU")
    assert untouched(host) and host.driver_of(OTHER) == f"driver-{kind}"


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        (NVME, "0000:41:00.1"),
        (NIC, "0000:41:00.2"),
        (BRIDGE, OTHER),
        (USB, OTHER),
        ("040300", OTHER),
    ],
)
def test_only_what_is_on_its_own_board_goes_with_a_gpu(kind: str, address: str) -> None:
    host = FakeHost()
    host.add_function(GPU, driver="nvidia")
    stranger(host, kind, address, group=12)
    host.add_driver("vfio-pci")
    error = refused(host, "vfio_bind", address=GPU, with_=[address], claim=CLAIM)
    assert (error["code"], error["message"]) == ("refused", f"{address} does not belong to {GPU}")
    assert untouched(host) and host.driver_of(address) == f"driver-{kind}"


@pytest.mark.parametrize("kind", ["030000", "030200", "038000", "120000"])
def test_gpus_of_every_class_are(kind: str) -> None:
    host = FakeHost()
    host.add_function(GPU, kind=kind, driver="nvidia")
    host.add_driver("vfio-pci")
    for number, sibling in enumerate(("040300", "0c0330", "0c8000"), 1):
        host.add_function(f"0000:41:00.{number}", kind=sibling)
    others = [f"0000:41:00.{number}" for number in (1, 2, 3)]
    done(host, "vfio_bind", address=GPU, with_=others, claim=CLAIM)


@pytest.mark.parametrize(("board", "taken"), [("030200", True), ("120000", True), (NIC, False)])
def test_a_vf_is_what_its_board_is(host: FakeHost, board: str, taken: bool) -> None:
    pf = host.add_function("0000:50:00.0", kind=board, driver="pf", group=40)
    path = host.add_function(OTHER, kind=board, group=30)
    host.links[f"{path}/physfn"] = pf
    if taken:
        done(host, "vfio_bind", address=OTHER, claim=CLAIM)
    else:
        assert refused(host, "vfio_bind", address=OTHER, claim=CLAIM)["code"] == "refused"


def test_nothing_else_is_adopted(host: FakeHost) -> None:
    host.add_function(OTHER, kind=NVME, driver="vfio-pci", group=30)
    assert refused(host, "vfio_adopt", address=OTHER, claim=CLAIM)["code"] == "refused"
    assert host.claims() == []


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("vfs_set", {"count": 0}),
        ("vfs_set", {"count": 4}),
        ("layout_claim", {"claim": CLAIM, "vfs": 0}),
    ],
)
def test_no_network_cards_vfs_are_changed(host: FakeHost, verb: str, args: Any) -> None:
    """Turning them off would take the host's own network away."""
    path = stranger(host, NIC)
    host.files |= {f"{path}/sriov_totalvfs": "8\n", f"{path}/sriov_numvfs": "2\n"}
    error = refused(host, verb, gpu=OTHER, **args)
    assert (error["code"], error["message"]) == ("refused", f"{OTHER} is not a GPU")
    assert untouched(host)


def test_no_mdev_is_made_on_other_devices(host: FakeHost) -> None:
    """Data accelerators are mdev parents, too."""
    path = stranger(host, "088000")
    host.add_parent(OTHER, path, {"idxd-wq": 1}, 4)
    args = {"parent": OTHER, "type": "idxd-wq", "uuid": "4b20d080-1b54-4048-85b3-a6a62d165c01"}
    assert refused(host, "mdev_create", **args, claim=CLAIM)["code"] == "refused"
    assert untouched(host)


@pytest.mark.parametrize("kind", ["vfio", "layout"])
def test_a_claim_of_something_else_is_not_replayed_at_a_boot(host: FakeHost, kind: str) -> None:
    """One that an older helper took."""
    path = stranger(host, NIC)
    host.files |= {f"{path}/sriov_totalvfs": "8\n", f"{path}/sriov_numvfs": "2\n"}
    unit = f"pci-{OTHER}" if kind == "vfio" else f"layout-{OTHER}"
    wanted: dict[str, Any] = {"kind": kind, "gpu": OTHER, "vfs": 0}
    if kind == "vfio":
        wanted = {"kind": kind, "address": OTHER, "original_driver": None, "original_override": ""}
    claim = {"unit": unit, "fleet": "fleet-1", "epoch": 1, **CLAIM, "wanted": wanted}
    host.files[f"{STATE}/claims/{unit}.json"] = json.dumps(claim)
    failed = done(host, "restore")["failed"]
    assert [(each["unit"], "is not a GPU" in each["why"]) for each in failed] == [(unit, True)]
    assert not [path for what, path in host.log if what == "write"]


# -- files


@pytest.mark.parametrize("verb", ["file_digest", "image_inspect"])
@pytest.mark.parametrize("pool", ["/etc", "/var/lib", "/pool/sub", "/proc/self/root/pool"])
def test_a_storage_pool_is_what_libvirt_calls_one(host: FakeHost, verb: str, pool: str) -> None:
    host.add_pool("/pool")
    host.images |= {f"{pool}/shadow": b"root:$6$", "/pool/a.img": b"\0" * 512}
    error = refused(host, verb, path=f"{pool}/shadow", pool_path=pool)
    assert (error["code"], error["message"]) == (
        "refused",
        f"{pool} is not a storage pool of libvirt's",
    )
    done(host, verb, path="/pool/a.img", pool_path="/pool")


def test_a_pool_that_is_active_and_defined_nowhere_is_one(host: FakeHost) -> None:
    host.images["/pool/a.img"] = b"\0" * 512
    host.files["/run/libvirt/storage/p.xml"] = (
        "<poolstate><uuid/><pool type='fs'><target><path>/pool/</path></target></pool></poolstate>"
    )
    done(host, "image_inspect", path="/pool/a.img", pool_path="/pool")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<pool",
        "<pool type='logical'><target><path>/dev/vg</path></target></pool>",
        "<pool type='disk'><target><path>/dev/vg</path></target></pool>",
        "<pool type='dir'><target/></pool>",
        "<pool type='dir'><target><path>dev/vg</path></target></pool>",
        "<!DOCTYPE p [<!ENTITY a '/dev/vg'>]>"
        "<pool type='dir'><target><path>&a;</path></target></pool>",
    ],
)
def test_what_makes_no_sense_is_no_pool(host: FakeHost, text: str) -> None:
    host.images["/dev/vg/lv"] = b"\0" * 512
    host.files["/etc/libvirt/storage/p.xml"] = text
    found = refused(host, "file_digest", path="/dev/vg/lv", pool_path="/dev/vg")
    assert found["code"] == "refused"


@pytest.mark.root
def test_no_link_in_a_pool_leads_out_of_it(tmp_path: Path) -> None:
    """Whoever may write to a pool, a guest's disk's owner say, puts links there."""
    pool, secret = tmp_path / "pool", tmp_path / "etc"
    for folder in (pool, secret, tmp_path / "etc/libvirt/storage"):
        folder.mkdir(parents=True, exist_ok=True)
    (secret / "shadow").write_text("root:$6$")
    (tmp_path / "etc/libvirt/storage/p.xml").write_text(
        "<pool type='dir'><target><path>/pool</path></target></pool>"
    )
    (pool / "plain").write_bytes(b"data")
    (pool / "link").symlink_to(secret / "shadow")
    (pool / "folder").symlink_to(secret)
    os.mkfifo(pool / "fifo")
    system = System(str(tmp_path))

    def digest(path: str) -> dict[str, Any]:
        return handle({"verb": "file_digest", "args": {"path": path, "pool_path": "/pool"}}, system)

    assert digest("/pool/plain")["result"]["sha256"] == hashlib.sha256(b"data").hexdigest()
    for path in ("/pool/link", "/pool/folder/shadow", "/pool/fifo", "/pool/folder", "/etc/shadow"):
        assert digest(path)["error"]["code"] == "refused", path


# -- marks of fleets


def test_a_mark_that_was_being_written_is_no_fleet(host: FakeHost) -> None:
    """A power cut between the write and the rename."""
    done(host, "fleet_join")
    host.files[f"{STATE}/fleets/fleet-2.tmp"] = ""
    assert done(host, "fleet_join") == {"fleets": ["fleet-1"]}
    assert f"{STATE}/fleets/fleet-2.tmp" not in host.files
    host.files[f"{STATE}/fleets/fleet-2.tmp"] = ""
    assert done(host, "fleet_leave") == {"fleets": []}
    assert [path for path in host.files if path.startswith(STATE)] == []


def test_a_fleet_is_never_called_like_a_write_under_way(host: FakeHost) -> None:
    assert refused(host, "fleet_join", fleet="fleet-2.tmp")["code"] == "bad-argument"


def test_marks_that_were_made_up_do_not_fill_the_disk(host: FakeHost) -> None:
    done(host, "fleet_join")
    for number in range(40):
        handle({"verb": "fleet_join", "args": {}, "fleet": f"made-up-{number}", "epoch": 1}, host)
    marks = [path for path in host.files if path.startswith(f"{STATE}/fleets/")]
    assert len(marks) <= 16
    assert "fleet-1" in done(host, "fleet_join")["fleets"], "who is there already stays"


def test_siblings_are_still_taken_and_given_back(host: FakeHost) -> None:
    done(host, "vfio_bind", address=GPU, with_=[AUDIO], claim=CLAIM)
    done(host, "vfio_release", address=GPU, claim=CLAIM)
    assert (host.driver_of(GPU), host.driver_of(AUDIO)) == ("nvidia", "snd_hda_intel")
    assert host.exists(f"{PCI}/devices/{GPU}")

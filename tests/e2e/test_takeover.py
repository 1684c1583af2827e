"""`vgpumgr takeover`: a node of Proxmox VE with twenty vGPU VMs, and what goes wrong on the way."""

from __future__ import annotations

import hashlib
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from tests.e2e.support import Cli, host, names, new_cli, sim_host
from tests.unit.images.files import qcow2
from vgpumgr import domainxml
from vgpumgr.cli import takeover_run
from vgpumgr.cli.running_command import carry_out
from vgpumgr.engine.steps.volume_steps import file_digest
from vgpumgr.model.errors import Interrupted

CASES = Path(__file__).parents[1] / "cases" / "takeover"
NODE = CASES / "pve1" / "qemu-server"
NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
LARGE = {
    "cpus": 128,
    "memory": "512GiB",
    "hugepages_1gib": 64,
    "bridges": ["br0", "br1", "br2"],
    "versions": NEW,
}
BRIDGES = ("--bridge", "vmbr0=br0", "--bridge", "vmbr1=br1", "--bridge", "vmbr2=br2")
UUID = "7d1c9b3e-4f2a-4c6d-9a10-000000000042"
MAC = "BC:24:11:00:00:2A"
CONF = (
    f"name: Seat_42\nmemory: 2048\ncores: 2\nnet0: virtio={MAC},bridge=br0\n"
    f"hostpci0: 0000:81:00.0,mdev=nvidia-232\nscsi0: pool:vm-142-disk-0,size=10M\n"
    f"smbios1: uuid={UUID}\n"
)


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)), host("h2", ("T4", 1)))
        yield made


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """The folder of a VM's one disk."""
    (tmp_path / "vm-142-disk-0.qcow2").write_bytes(qcow2())
    return tmp_path


def conf(cli: Cli, text: str = CONF) -> str:
    return cli.file(text, "142.conf")


def take(cli: Cli, verb: str, *more: str, text: str = CONF) -> tuple[str, ...]:
    return ("takeover", verb, "--from", "proxmox", conf(cli, text), *more)


def fetch(plan: list[dict[str, Any]], folder: Path) -> dict[str, bytes]:
    """Files of all disks as an operator fetches them, no two alike, by their image."""
    files = {}
    for number, (item, disk) in enumerate((each, d) for each in plan for d in each["disks"]):
        raw = disk["volume"].endswith(".raw")
        data = bytes([number + 1]) * (1 << 20) if raw else qcow2(virtual=(10 << 20) + number * 512)
        name = f"{disk['stems'][0]}.{'raw' if raw else 'qcow2'}"
        (folder / name).write_bytes(data)
        files[disk["image"]] = data
        assert item["vm"]
    return files


@pytest.mark.thorough
def test_a_node_of_twenty_vgpu_vms_is_taken_over(tmp_path: Path) -> None:
    """All run here with their profiles, MAC addresses and UUIDs. Each is started once, and not
    stopped or rebooted: with the stop on the source that is one reboot.
    """
    node = ("--from", "proxmox", str(NODE), *BRIDGES, "--disks", str(tmp_path))
    with new_cli() as cli:
        boards = ("A40", 2), ("T4", 2)
        cli.sim_up(host("h1", *boards, **LARGE), host("h2", *boards, **LARGE))
        layout = {
            "kind": "Layout", "name": "a40", "hosts": ["h1", "h2"],
            "gpus": [{"model": "A40", "vfs": "max"}],
        }  # fmt: skip
        cli.ok("layout", "apply", "-y", "-f", cli.documents(layout, name="layout.yaml"))
        plan = cli.ok("takeover", "plan", *node, "-o", "json").json["items"]
        files = fetch(plan, tmp_path)
        done = cli.ok("takeover", "apply", *node, "-y", "-o", "json").json["items"]
        assert [each["state"] for each in done] == ["taken over"] * 20

        vms = {each["name"]: each for each in cli.items("vm", "list")}
        assert set(vms) == {each["name"] for each in plan}
        assert {each["power"] for each in vms.values()} == {"running"}
        profiles = Counter(each["profile"] for each in cli.items("allocation", "list"))
        assert profiles == {"A40-8Q": 8, "A40-4Q": 6, "T4-4Q": 4, "passthrough": 2}
        for path in sorted(NODE.glob("*.conf")):
            _require_identity(cli, path, plan)
        _require_disks(cli, plan, files)
        assert {each["state"] for each in cli.items("image", "list")} == {"retired"}
        assert not cli.items("drift")
        kinds = Counter(each["kind"] for each in cli.items("operation", "list", "--limit", "0"))
        assert kinds["apply"] == 20, kinds
        assert not kinds.keys() & {"stop", "reboot", "start"}, kinds

        again = cli.ok("takeover", "apply", *node, "-y", "-o", "json").json["items"]
        assert [each["state"] for each in again] == ["there"] * 20


def _require_identity(cli: Cli, path: Path, plan: list[dict[str, Any]]) -> None:
    """The domain has the UUID and the MAC addresses that the source's file has."""
    text = path.read_text().partition("\n[")[0]
    [item] = [each for each in plan if each["source"].endswith(path.name)]
    xml = cli.ok("vm", "xml", item["name"]).out
    assert domainxml.parse(xml).uuid in text
    macs = [nic.mac for nic in domainxml.described(xml).nics if nic]
    assert macs == [each["mac"] for each in item["vm"]["networks"]]
    assert all(mac.upper() in text for mac in macs)


def _require_disks(cli: Cli, plan: list[dict[str, Any]], files: dict[str, bytes]) -> None:
    """Each volume is as large as the disk in its file; a raw one has its very bytes."""
    for item in plan:
        shown = cli.ok("vm", "show", item["name"], "-o", "json").json
        with sim_host(cli, shown["host"]) as found:
            for disk, volume in zip(item["disks"], shown["volumes"], strict=True):
                seen = found.storage.look(volume["pool"], volume["name"])
                assert seen is not None
                data = files[disk["image"]]
                if seen.format == "raw":
                    assert file_digest(found, seen.path) == hashlib.sha256(data).hexdigest()
                else:
                    assert seen.capacity_bytes == int.from_bytes(data[24:32], "big")


def test_a_vm_is_planned_written_and_taken_over(cli: Cli, disks: Path) -> None:
    shown = cli.ok(*take(cli, "plan"))
    assert "seat-42" in shown.out
    assert "changed  scsi0" in shown.out
    assert "first    qm shutdown 142   (on the source)" in shown.out
    assert 'qemu-img convert -O qcow2 "$(pvesm path pool:vm-142-disk-0)" FOLDER/' in shown.out
    assert "kept     smbios1.uuid" in cli.ok(*take(cli, "plan", "--every-key")).out
    document = yaml.safe_load(cli.ok(*take(cli, "plan", "-o", "yaml")).out)
    assert (document["uuid"], document["disks"][0]["image"]) == (UUID, "seat-42-scsi0@1")

    ready = take(cli, "apply", "--disks", str(disks))
    assert "would go to h" in cli.ok(*ready, "--dry-run").out
    assert cli.items("vm", "list") == []
    assert "add -y" in cli.fails(2, *ready).err
    [done] = cli.ok(*ready, "-y", "-o", "json").json["items"]
    assert (done["name"], done["state"], done["disks"]) == ("seat-42", "taken over", 1)
    domain = domainxml.parse(cli.ok("vm", "xml", "seat-42").out)
    assert domain.uuid == UUID
    [allocation] = cli.items("allocation", "list")
    assert (allocation["profile"], allocation["host"]) == ("T4-4Q", done["host"])
    [image] = cli.items("image", "list")
    assert (image["state"], image["copies"]) == ("retired", [])
    assert "was there already" in cli.ok(*ready, "-y").out
    assert "the fleet has it already" in cli.ok(*take(cli, "plan")).out
    cli.ok("vm", "delete", "seat-42", "--force", "-y")
    assert "running on" in cli.ok(*ready, "-y").out
    assert names(cli.items("image", "list")) == ["seat-42-scsi0@1", "seat-42-scsi0@2"]


def test_the_documents_can_be_applied_by_hand(cli: Cli, disks: Path) -> None:
    text = cli.ok(*take(cli, "plan", "-o", "yaml", "--disks", str(disks))).out
    cli.ok("image", "import", str(disks / "vm-142-disk-0.qcow2"), "--name", "seat-42-scsi0")
    cli.ok("apply", "-f", cli.file(text, "seat.yaml"))
    assert "was there already" in cli.ok(*take(cli, "apply", "--disks", str(disks), "-y")).out
    assert cli.items("image", "list")[0]["state"] == "retired"


def test_an_image_of_a_like_name_that_the_vm_was_not_made_from_stays(cli: Cli, disks: Path) -> None:
    ready = take(cli, "apply", "--disks", str(disks), "-y")
    cli.ok(*ready)
    (disks / "own.qcow2").write_bytes(qcow2(virtual=20 << 20))
    cli.ok("image", "import", str(disks / "own.qcow2"), "--name", "seat-42-scsi0")
    assert "was there already" in cli.ok(*ready).out
    states = {each["name"]: each["state"] for each in cli.items("image", "list")}
    assert states["seat-42-scsi0@1"] == "retired" != states["seat-42-scsi0@2"]


@pytest.mark.parametrize("cut", ["vm.apply", "image.retire"])
@pytest.mark.parametrize("after", [False, True])
def test_a_takeover_that_is_cut_goes_on(cli: Cli, disks: Path, cut: str, after: bool) -> None:
    """Cut before or after each part of it: the same command finishes it, with one VM and no image
    left.
    """

    def cutting(context: Any, endpoint: Any, asked: Any, **more: Any) -> Any:
        if endpoint.name == cut and not after:
            raise Interrupted("interrupted")
        done = carry_out(context, endpoint, asked, **more)
        if endpoint.name == cut:
            raise Interrupted("interrupted")
        return done

    ready = take(cli, "apply", "--disks", str(disks), "-y")
    with mock.patch.object(takeover_run, "carry_out", cutting):
        ended = cli.fails(130, *ready)
    assert "the same command again" in ended.err
    cli.ok(*ready)
    assert [each["power"] for each in cli.items("vm", "list")] == ["running"]
    [image] = cli.items("image", "list")
    assert (image["state"], image["copies"]) == ("retired", [])


def test_a_creation_that_was_cut_is_finished(cli: Cli, disks: Path) -> None:
    def stopping(context: Any, endpoint: Any, asked: Any, **more: Any) -> Any:
        if endpoint.name == "vm.apply":
            context.app.stop.set()
        return carry_out(context, endpoint, asked, **more)

    ready = take(cli, "apply", "--disks", str(disks), "-y")
    with mock.patch.object(takeover_run, "carry_out", stopping):
        cut = cli(*ready)
    assert cut.code != 0
    cli.ok(*ready)
    assert [each["power"] for each in cli.items("vm", "list")] == ["running"]
    assert cli.items("image", "list")[-1]["state"] == "retired"


def test_what_is_missing_or_wrong_says_what_to_type(cli: Cli, disks: Path, tmp_path: Path) -> None:
    missing = cli.fails(3, *take(cli, "apply", "-y"))
    assert "no folder is given with --disks" in missing.err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "pvesm path" in cli.fails(3, *take(cli, "apply", "-y", "--disks", str(empty))).err
    (empty / "vm-142-disk-0.vmdk").write_bytes(b"KDMV")
    vmdk = cli.fails(3, *take(cli, "apply", "-y", "--disks", str(empty)))
    assert f"next: qemu-img convert -O qcow2 {empty}/vm-142-disk-0.vmdk" in vmdk.err
    (empty / "vm-142-disk-0.qcow2").write_bytes(qcow2(backing_offset=200, backing_size=4))
    backed = cli.fails(2, *take(cli, "apply", "-y", "--disks", str(empty)))
    assert "cannot be used" in backed.err

    unknown = CONF.replace("nvidia-232", "nvidia-77777")
    stuck = cli.fails(4, *take(cli, "plan", text=unknown))
    assert "cannot: hostpci0: nothing says which profile nvidia-77777 is" in stuck.out
    folder = ("--disks", str(disks))
    assert "cannot be taken over" in cli.fails(4, *take(cli, "apply", *folder, text=unknown)).err
    assert "left out" in cli.ok(*take(cli, "apply", *folder, "--partial", text=unknown)).err
    told = ("--gpu", "nvidia-77777=T4-8Q")
    assert "T4-8Q" in cli.ok(*take(cli, "plan", *told, text=unknown)).out
    assert "no profile and no board" in cli.fails(2, *take(cli, "plan", "--gpu", "a=b")).err
    assert "THERE=HERE" in cli.fails(2, *take(cli, "plan", "--gpu", "x")).err

    large = CONF.replace("memory: 2048", "memory: 999999")
    assert "no room" in cli.fails(5, *take(cli, "apply", *folder, text=large)).err
    assert "left out" in cli.ok(*take(cli, "apply", *folder, "--partial", text=large)).err
    assert cli.items("vm", "list") == []
    assert "no description" in cli.fails(3, *take(cli, "plan", "--vm", "other")).err
    cli.fails(3, "takeover", "plan", "--from", "proxmox", str(tmp_path / "none"))
    cli.fails(3, "takeover", "plan", "--from", "libvirt", str(empty))
    cli.fails(2, "takeover", "plan", conf(cli))


def test_a_vm_of_the_same_name_is_not_taken_for_another(cli: Cli, disks: Path) -> None:
    cli.ok("apply", "-f", cli.documents({"name": "seat-42", "memory": "1GiB"}))
    shown = cli.fails(4, *take(cli, "plan"))
    assert "the fleet has another VM seat-42" in shown.out


def test_descriptions_come_from_a_pipe_an_ova_and_a_domain(cli: Cli, tmp_path: Path) -> None:
    piped = cli.ok("takeover", "plan", "--from", "proxmox", "-", stdin=CONF.encode())
    assert "seat-42" in piped.out
    ova = tmp_path / "cad.ova"
    with tarfile.open(ova, "w") as archive:
        archive.add(CASES / "vmware-cad.ovf", "cad.ovf")
    network = ("--bridge", "VM Network=br0")
    assert "A40-8Q" in cli.ok("takeover", "plan", "--from", "ovf", str(ova), *network).out
    ova.write_bytes(b"no tar")
    assert "is no OVA" in cli.fails(2, "takeover", "plan", "--from", "ovf", str(ova)).err
    domain = str(CASES / "ovirt-viz.xml")
    shown = cli.ok("takeover", "plan", "--from", "libvirt", domain, "-o", "json").json
    assert [each["name"] for each in shown["items"]] == ["viz-07"]


@pytest.mark.thorough
def test_a_domain_and_an_ovf_are_taken_over(tmp_path: Path) -> None:
    ovf = ("--from", "ovf", str(CASES / "vmware-cad.ovf"), "--bridge", "VM Network=br0")
    domain = ("--from", "libvirt", str(CASES / "ovirt-viz.xml"), "--bridge", "ovirtmgmt=br0")
    folder = ("--disks", str(tmp_path), "-y")
    with new_cli() as cli:
        cli.sim_up(host("h1", ("A40", 2), **LARGE))
        layout = {"kind": "Layout", "name": "a40", "gpus": [{"model": "A40", "vfs": "max"}]}
        everywhere = {**layout, "hosts": ["h1"]}
        cli.ok("layout", "apply", "-y", "-f", cli.documents(everywhere, name="layout.yaml"))
        (tmp_path / "CAD-22-1.vmdk").write_bytes(b"KDMV")
        assert "qemu-img convert" in cli.fails(3, "takeover", "apply", *ovf, *folder).err
        for source in (ovf, domain):
            plan = cli.ok("takeover", "plan", *source, "-o", "json").json["items"]
            fetch(plan, tmp_path)
            cli.ok("takeover", "apply", *source, *folder)
        vms = {each["name"]: each for each in cli.items("vm", "list")}
        assert {name: each["power"] for name, each in vms.items()} == {
            "cad-22": "running",
            "viz-07": "running",
        }
        seen = domainxml.described(cli.ok("vm", "xml", "cad-22").out)
        assert (seen.firmware, seen.secure_boot) == ("uefi", True)
        assert [nic.mac for nic in seen.nics if nic] == ["00:50:56:9a:12:34"]
        viz = domainxml.parse(cli.ok("vm", "xml", "viz-07").out)
        assert viz.uuid == "6a28e9f6-6627-49b8-8c24-741ab810ecc0"
        assert not cli.items("drift")

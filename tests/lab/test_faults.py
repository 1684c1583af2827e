"""The controller is killed, a host loses its power, an operator acts by hand: nothing is lost.

``make faults-lab`` runs it. Kills are spread over the time that the same command took undisturbed;
afterwards the same command is typed again, and the hosts are compared with the ledger.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab import moving
from tests.lab.labhost import LabHost, Vgpumgr
from tests.lab.moving import VM, Two, goes_on, number, until_done

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3600)]

# Where in the time that a command takes it is killed.
POINTS = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
TYPED = "0000:05:00.0"
VFS = 4
AT_WORK_S = 90.0
WANTED: tuple[dict[str, Any], ...] = (
    {"name": "one", "gpus": [{"profile": "mtty-1"}], "disks": [{"size": "16MiB"}]},
    {"name": "two", "gpus": [{"profile": "lab-701"}]},
    {"name": "whole", "gpus": [{"profile": "passthrough", "model": "1234:1111"}]},
)


def killed_after(vgpumgr: Vgpumgr, seconds: float, *args: str) -> bool:
    """Start the command and SIGKILL it after so long; False when it ended before."""
    with vgpumgr.begin(*args) as process:
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return True
    assert process.returncode == 0
    return False


def seconds_of(vgpumgr: Vgpumgr, *args: str) -> float:
    """How long the command takes when nothing happens to it."""
    start = time.monotonic()
    vgpumgr(*args)
    return time.monotonic() - start


def open_operations(vgpumgr: Vgpumgr) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = vgpumgr("operation", "list", "--open", "-o", "json").json["items"]
    return found


def is_sound(lab: LabHost, vgpumgr: Vgpumgr) -> None:
    """Host and ledger agree, nothing is unfinished, and no device has two owners."""
    assert open_operations(vgpumgr) == []
    vgpumgr("drift")
    held = vgpumgr("allocation", "list", "-o", "json").json["items"]
    devices = [each["device"] for each in held]
    assert len(devices) == len(set(devices))
    assert len(lab.dump()["claims"]) == len(held)


def test_a_creation_killed_at_any_time_is_finished_by_the_same_command(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    apply = ("apply", "-f", vgpumgr.file(*WANTED))
    whole = seconds_of(vgpumgr, *apply)
    is_sound(lab, vgpumgr)
    vgpumgr.delete_all()
    bare = lab.dump()
    kills = 0
    for point in POINTS:
        kills += killed_after(vgpumgr, whole * point, *apply)
        until_done(vgpumgr, *apply)
        assert set(lab.virsh("list --name").split()) == {vm["name"] for vm in WANTED}
        is_sound(lab, vgpumgr)
        vgpumgr.delete_all()
        assert lab.settled(bare) == bare
    assert kills >= len(POINTS) // 2


def test_a_deletion_killed_at_any_time_is_finished_by_the_same_command(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    bare = lab.dump()
    apply = ("apply", "-f", vgpumgr.file(*WANTED))
    delete = ("delete", "-f", apply[2], "-y", "--force")
    vgpumgr(*apply)
    whole = seconds_of(vgpumgr, *delete)
    for point in POINTS[1::2]:
        vgpumgr(*apply)
        killed_after(vgpumgr, whole * point, *delete)
        until_done(vgpumgr, *delete)
        assert lab.settled(bare) == bare
        is_sound(lab, vgpumgr)


def layout(folder: Path, lab: LabHost, count: int) -> tuple[str, ...]:
    document = {"apiVersion": "vgpumgr/v1", "kind": "Layout", "name": "cut", "hosts": [lab.name]}
    path = folder / f"layout-{count}.yaml"
    path.write_text(json.dumps({**document, "gpus": [{"devices": [TYPED], "vfs": count}]}))
    return ("layout", "apply", "-f", str(path), "-y")


def test_a_layout_change_killed_at_any_time_is_finished_by_the_same_command(
    lab: LabHost, vgpumgr: Vgpumgr, tmp_path: Path
) -> None:
    up, down = layout(tmp_path, lab, VFS), layout(tmp_path, lab, 0)
    whole = seconds_of(vgpumgr, *up)
    vgpumgr(*down)
    bare = lab.dump()
    for point in POINTS[::2]:
        for change, count in ((up, VFS), (down, 0)):
            killed_after(vgpumgr, whole * point, *change)
            until_done(vgpumgr, *change)
            vgpumgr("layout", "assert", "-f", change[3])
            assert lab.root(f"cat /sys/bus/pci/devices/{TYPED}/sriov_numvfs") == str(count)
            is_sound(lab, vgpumgr)
    assert lab.settled(bare) == bare


@pytest.mark.parametrize("point", [0.3, 0.7])
def test_a_host_that_loses_its_power_while_vms_are_made_has_them_in_the_end(
    lab: LabHost, vgpumgr: Vgpumgr, point: float
) -> None:
    apply = ("apply", "-f", vgpumgr.file(*WANTED))
    whole = seconds_of(vgpumgr, *apply)
    vgpumgr.delete_all()
    with vgpumgr.begin(*apply) as process:
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=whole * point)
        lab.cut_power()
        process.communicate()
    until_done(vgpumgr, *apply)
    assert set(lab.virsh("list --name").split()) == {vm["name"] for vm in WANTED}
    is_sound(lab, vgpumgr)


STRANGER = """
<domain type='qemu'><name>stranger</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type machine='q35'>hvm</type></os><features><acpi/></features>
<devices><video><model type='none'/></video></devices></domain>
"""


class Operator(threading.Thread):
    """Stops and starts our VMs with virsh, and keeps a VM and an mdev of its own, until told."""

    def __init__(self, lab: LabHost, mdev: str) -> None:
        super().__init__(name="operator")
        self._lab = lab
        self._mdev = mdev
        self.enough = threading.Event()
        self.acts = 0

    def run(self) -> None:
        """Turn after turn; what fails, because we hold it at that moment, fails."""
        while not self.enough.is_set():
            self._lab.attempt("virsh -q -c qemu:///system destroy one; true")
            self._lab.attempt("virsh -q -c qemu:///system undefine two; true")
            self._lab.attempt("virsh -q -c qemu:///system start one; true")
            self._lab.attempt("virsh -q -c qemu:///system reset stranger; true")
            self.acts += 4


@pytest.fixture
def stranger(lab: LabHost) -> Iterator[str]:
    """A running domain and an mdev that somebody else made; both are there afterwards."""
    mdev = "5c0ffee5-0000-4000-8000-00000000cafe"
    lab.virsh("define /dev/stdin", stdin=STRANGER)
    lab.virsh("start stranger")
    lab.make_mdev("mtty", "mtty-1", mdev)
    yield mdev
    assert lab.virsh("domstate stranger") == "running"
    assert mdev in lab.dump()["mdevs"]
    lab.drop_mdev(mdev)
    lab.virsh("destroy stranger")
    lab.virsh("undefine stranger")


def test_an_operator_acts_with_virsh_all_the_while(
    lab: LabHost, vgpumgr: Vgpumgr, stranger: str
) -> None:
    """Commands may fail meanwhile; none of them harms what is not ours, and in the end one does."""
    files = vgpumgr.file(*WANTED)
    operator = Operator(lab, stranger)
    operator.start()
    until = time.monotonic() + AT_WORK_S
    turns = 0
    while time.monotonic() < until:
        for words in (("apply", "-f", files), ("delete", "-f", files, "-y", "--force")):
            with vgpumgr.begin(*words) as process:
                out, err = process.communicate(timeout=600)
            assert "Traceback" not in out + err
            assert process.returncode in {0, 1, 4, 7, 10}, f"{words}: {process.returncode} {err}"
            turns += 1
    operator.enough.set()
    operator.join()
    until_done(vgpumgr, "delete", "-f", files, "-y", "--force")
    until_done(vgpumgr, "apply", "-f", files)
    vgpumgr("drift", "--ignore-foreign")
    assert turns >= 2 and operator.acts >= 4


@pytest.fixture
def two(both: Vgpumgr, lab: LabHost, lab2: LabHost) -> Iterator[Two]:
    """Both hosts take running VMs; afterwards both are as before."""
    made = Two(both, (lab, lab2))
    for host in made.hosts:
        made.takes(host)
    with moving.image(lab), moving.image(lab2):
        before = [host.dump() for host in made.hosts]
        yield made
        both.delete_all()
        assert [h.settled(was) for h, was in zip(made.hosts, before, strict=True)] == before


@pytest.mark.parametrize("how", ["live", "cold"])
def test_a_migration_killed_at_any_time_leaves_one_that_runs(two: Two, how: str) -> None:
    here, there = two.create("mtty-1")
    cold = () if how == "live" else ("--cold",)
    move = ("vm", "migrate", VM, "--to", there.name, *cold)
    back = ("vm", "migrate", VM, "--to", here.name, *cold)
    whole = seconds_of(two.vgpumgr, *move)
    two.vgpumgr(*back)
    for point in POINTS[::2]:
        counted = number(here)
        killed_after(two.vgpumgr, whole * point, *move)
        until_done(two.vgpumgr, *move)
        if how == "live":
            goes_on(there, counted)
        two.is_alone_on(there)
        two.vgpumgr(*back)
        two.is_alone_on(here)

"""What somebody who meets the program for the first time is told, and whether it can be typed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, host, names, new_cli, vm

HOSTS = ("one", "two")


@pytest.fixture
def cli() -> Iterator[Cli]:
    """Two hosts with a T4 each."""
    with new_cli() as found:
        found.sim_up(*(host(name, ("T4", 1)) for name in HOSTS))
        yield found


def forget_everything(cli: Cli) -> None:
    """The ledger is lost, the hosts are not."""
    for path in cli.state.glob("ledger.sqlite*"):
        if path.is_file():
            path.unlink()
    cli.ok("sim", "up")


def switch_off(cli: Cli) -> None:
    cli.ok("sim", "down")


# -- names in the way --------------------------------------------------------------------------


def test_a_vm_goes_where_no_foreign_domain_has_its_name(cli: Cli) -> None:
    file = cli.documents(vm("web", affinity={"hosts": ["one"]}))
    cli.ok("apply", "-f", file)
    forget_everything(cli)
    assert [item["state"] for item in cli.items("vm", "list")] == ["foreign"]
    cli.ok("apply", "-f", cli.documents(vm("web")))
    ours = [item for item in cli.items("vm", "list") if item["state"] == "active"]
    assert [(item["name"], item["host"]) for item in ours] == [("web", "two")]


def test_a_name_that_is_taken_on_every_host_is_refused_before_anything_is_made(cli: Cli) -> None:
    file = cli.documents(vm("web", affinity={"hosts": ["one"]}), vm("db"))
    cli.ok("apply", "-f", file)
    forget_everything(cli)
    ran = cli.fails(5, "apply", "-f", file)
    assert "one has a foreign domain named web" in ran.err
    assert {each["kind"] for each in cli.items("operation", "list")} == {"host add"}


# -- cannot be placed --------------------------------------------------------------------------


def test_every_reason_names_its_host(cli: Cli) -> None:
    file = cli.documents(vm("big", "T4-16Q", replicas=3))
    why = cli.fails(5, "apply", "-f", file, "-o", "json").error["why"]
    reason, helps = why.split("; ")
    assert reason.startswith("one: ")
    assert reason.endswith("(and 1 more GPU alike, on two)")
    assert helps.startswith("it fits with ")


def test_a_plan_tells_what_hundreds_cannot_have_once(cli: Cli) -> None:
    ran = cli.fails(5, "plan", "-f", cli.documents(vm("many", "T4-16Q", replicas=500)))
    assert "cannot be placed: many-03 and 497 more" in ran.out
    assert "2 to change, 498 cannot be placed" in ran.out
    assert len(ran.out.splitlines()) < 10


def test_a_fleet_that_is_off_is_unreachable_and_doctor_helps(cli: Cli) -> None:
    switch_off(cli)
    error = cli.fails(6, "apply", "-f", cli.documents(vm("web")), "-o", "json").error
    assert error["next"] == "vgpumgr doctor"
    assert "vgpumgr sim up" in cli.fails(7, "doctor").out
    assert "next: vgpumgr doctor" in cli.fails(6, "host", "probe").err


def test_sim_up_without_a_file_brings_the_same_fleet_back(cli: Cli) -> None:
    switch_off(cli)
    cli.ok("sim", "up")
    assert names(cli.items("host", "list")) == list(HOSTS)


# -- changes -----------------------------------------------------------------------------------


def test_a_change_is_told_in_the_words_of_the_file(cli: Cli) -> None:
    disk = {"size": "2GiB"}
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-2Q", disks=[disk], labels={"a": "b"})))
    file = cli.documents(
        vm("web", "T4-4Q", memory="2GiB", labels={"a": "c"}, disks=[{"size": "1GiB"}])
    )
    told = cli.ok("plan", "-f", file).out
    for words in (
        "memory: 1GiB → 2GiB",
        "gpus: T4-2Q → T4-4Q",
        "disks: 2GiB in default → 1GiB in default (needs a new VM)",
        "labels: a=b → a=c",
        "need a new VM",
        "--keep-disks",
    ):
        assert words in told
    assert "needs a stop" not in told
    error = cli.fails(4, "apply", "-f", file, "--restart", "-o", "json").error
    assert error["message"] == "web cannot change disks in place"
    assert error["next"].startswith("vgpumgr vm delete web --force --keep-disks, then ")


def test_the_command_that_allows_a_stop_can_be_typed(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("web")))
    file = cli.documents(vm("web", memory="2GiB"))
    command = cli.fails(4, "apply", "-f", file, "-o", "json").error["next"]
    assert command == f"vgpumgr apply -f {file} --restart"
    cli.ok(*command.split()[1:])
    assert "nothing to change" in cli.ok("apply", "-f", file).out


def test_replicas_that_the_file_no_longer_names_stay_and_are_named(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("a", replicas=5), vm("b-7")))
    fewer = cli.documents(vm("a", replicas=3))
    ran = cli.ok("apply", "-f", fewer)
    assert "not in the file, left alone: a-04, a-05\n" in ran.err
    assert f"next: vgpumgr apply -f {fewer} --prune " in ran.err
    assert len(cli.items("vm", "list")) == 6
    told = cli.ok("delete", "-f", fewer, "--force", "-y").err
    assert "a-04, a-05" in told and "next: vgpumgr vm delete a-04 a-05" in told
    assert names(cli.items("vm", "list")) == ["a-04", "a-05", "b-7"]


# -- small things ------------------------------------------------------------------------------


def test_a_disk_smaller_than_its_image_is_refused(cli: Cli) -> None:
    disk = {"mode": "overlay", "image": "debian-12.qcow2", "size": "1MiB"}
    error = cli.fails(2, "apply", "-f", cli.documents(vm("web", disks=[disk])), "-o", "json").error
    size = error["next"].split()[2]
    cli.ok("apply", "-f", cli.documents(vm("web", disks=[{**disk, "size": size}])))


def test_a_fault_in_flags_points_at_no_line_of_a_file(cli: Cli) -> None:
    ran = cli.fails(2, "vm", "create", "web", "--vcpus", "0")
    assert "error: vcpus: must be at least 1, not 0" in ran.err
    assert "next: correct it and try again" in ran.err


def test_an_unknown_simulated_host_is_not_found(cli: Cli) -> None:
    assert "no simulated host" in cli.fails(3, "sim", "inject", "three", "hang").err


def test_an_empty_list_says_so_beside_its_output(cli: Cli) -> None:
    ran = cli.ok("vm", "list")
    assert (ran.out, ran.err) == ("", "nothing to list\n")
    assert cli.ok("vm", "list", "-o", "name").err == ""


def test_a_cordon_is_confirmed(cli: Cli) -> None:
    assert cli.ok("host", "cordon", "one").err == "one: cordoned\n"
    assert cli.ok("host", "uncordon", "one").err == "one: accepts VMs again\n"


def test_a_missing_file_tells_where_to_look(cli: Cli, tmp_path: Path) -> None:
    ran = cli.fails(3, "plan", "-f", str(tmp_path / "nope.yaml"))
    assert f"next: ls {tmp_path}" in ran.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_no_fault_of_the_program(cli: Cli) -> None:
    argv = [sys.executable, "-m", "vgpumgr", "--state-dir", str(cli.state), "map"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1
    assert "error: nothing more could be written" in ran.stderr
    assert "fault" not in ran.stderr

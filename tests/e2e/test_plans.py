"""Plans say what `apply` would do and refuse; nothing of a file is dropped unsaid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.support import Cli, finish, host, names, new_cli, vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    """Two hosts with two T4 each: 32 T4-2Q in all."""
    with new_cli() as found:
        found.sim_up(host("h1", ("T4", 2), cpus=64), host("h2", ("T4", 2), cpus=64))
        yield found


def volumes(cli: Cli, name: str) -> list[str]:
    return [each["name"] for each in cli.ok("vm", "show", name, "-o", "json").json["volumes"]]


@pytest.mark.parametrize(
    ("profile", "disks"),
    [
        ("T4-4Q", [{"size": "5GiB"}]),
        ("T4-2Q", [{"size": "20GiB", "format": "raw"}]),
        ("T4-4Q", [{"size": "5GiB"}, {"size": "5GiB"}]),
        ("T4-4Q", [{"mode": "copy", "image": "debian-12.qcow2"}]),
    ],
)
def test_the_way_to_another_disk_is_printed_and_loses_no_disk(
    cli: Cli, profile: str, disks: list[dict[str, Any]]
) -> None:
    overlay = {"mode": "overlay", "image": "debian-12.qcow2"}
    first = [overlay] if "image" in disks[0] else [{"size": "10GiB"}]
    cli.ok("apply", "-f", cli.documents(vm("desk", "T4-2Q", disks=first)))
    [kept] = volumes(cli, "desk")
    file = cli.documents(vm("desk", profile, disks=disks))
    for verb in ("diff", "plan"):
        told = cli(verb, "-f", file).out
        assert "replace  desk" in told
        assert "needs a stop" not in told
        assert "apply refuses this file" in told
    refused = cli.fails(4, "apply", "-f", file, "--restart", "-o", "json").error
    assert "its disks go too" not in refused["next"]
    assert refused["next"] in cli("diff", "-f", file).out
    typed = refused["next"].split(", then ")[0].split()
    cli.ok(*typed[1:], "-y")
    written = re.search(r"disks: (\[.*\]) and affinity: (\{.*?\})", refused["next"])
    assert written, refused["next"]
    new = {
        "disks": yaml.safe_load(written[1]),
        "affinity": yaml.safe_load(written[2]),
    }
    cli.ok("apply", "-f", cli.documents(vm("desk", profile, **new)))
    assert len(volumes(cli, "desk")) == len(disks)
    assert new["disks"][0]["image"] == kept
    assert new["disks"][0].get("size") == ("20GiB" if "format" in disks[0] else None)


def test_a_plan_that_apply_refuses_says_so_and_names_partial(cli: Cli) -> None:
    file = cli.documents(vm("many", "T4-2Q", replicas=40))
    told = cli.fails(5, "plan", "-f", file).out
    assert f"to create the 32 that fit: vgpumgr apply -f {file} --partial" in told
    refused = cli.fails(5, "apply", "-f", file, "-o", "json").error
    assert refused["next"].endswith(f"create the 32 that fit: vgpumgr apply -f {file} --partial")
    made = cli.fails(7, "apply", "-f", file, "--partial").out
    assert "refuses" not in made
    assert len(cli.items("vm", "list")) == 32


def test_the_plan_of_an_apply_comes_before_its_work(cli: Cli) -> None:
    cli.ok("sim", "inject", "h1", "latency", "1")
    cli.ok("sim", "inject", "h2", "latency", "1")
    process = cli.process("apply", "-f", cli.documents(vm("a", "T4-2Q"), vm("b", "T4-2Q")))
    assert process.stdout
    assert "create  a" in process.stdout.readline()
    assert cli.ok("sim", "status", "-o", "json").json["running_domains"] == 0
    cli.ok("sim", "inject", "h1", "clear")
    cli.ok("sim", "inject", "h2", "clear")
    assert finish(process).code == 0


HOST = "apiVersion: vgpumgr/v1\nkind: Host\nname: {}\naddress: sim://{}\n---\n"
VM = "apiVersion: vgpumgr/v1\nkind: VM\nname: web\nvcpus: 1\nmemory: 1GiB\n"


def test_a_host_of_a_file_comes_first_and_what_fails_there_ends_it(cli: Cli) -> None:
    file = cli.file(VM + "---\n" + HOST.format("h9", "h9").removesuffix("---\n"))
    planned = cli.ok("plan", "-f", file, "-o", "json").json
    assert [each["name"] for each in planned["new_hosts"]] == ["h9"]
    assert planned["later"] == ["1 VM"]
    cli.fails(10, "diff", "-f", file)
    assert "enrol 1 host (h9)" in cli.fails(2, "apply", "-f", file, "-o", "json").error["message"]
    ran = cli("apply", "-f", file, "-y")
    assert ran.code != 0 and "not begun: 1 VM" in ran.err
    assert cli.items("vm", "list") == []
    assert names(cli.items("host", "list")) == ["h1", "h2"]


def test_a_host_is_enrolled_and_has_a_vm_by_one_file(cli: Cli) -> None:
    cli.ok("host", "remove", "h2", "-y")
    cordoned = HOST.format("h1", "h1")
    there = VM.replace("vcpus", "affinity: {hosts: [h2]}\nvcpus")
    file = cli.file(cordoned + HOST.format("h2", "h2") + there)
    done = cli.ok("apply", "-f", file, "-y", "-o", "json").json
    assert [each["name"] for each in done["hosts"]] == ["h2"]
    assert [each["state"] for each in done["vms"]["vms"]] == ["done"]
    assert [each["host"] for each in cli.items("vm", "list")] == ["h2"]
    assert "nothing to change" in cli.ok("apply", "-f", file).out


def test_a_host_that_is_as_enrolled_is_no_obstacle(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.file(HOST.format("h1", "h1") + VM))
    other = HOST.format("h1", "h1").replace("---", "labels: {rack: r1}\n---")
    refused = cli.fails(2, "apply", "-f", cli.file(other + VM), "-o", "json").error
    assert "enrolled otherwise: labels" in refused["message"]
    told = cli.ok("delete", "-f", cli.file(HOST.format("h1", "h1") + VM), "--force", "-y")
    assert "left as they are: h1" in told.err
    assert names(cli.items("host", "list")) == ["h1", "h2"]


def test_vms_and_pools_of_one_file_are_planned_applied_and_deleted(cli: Cli) -> None:
    pool = (
        "---\napiVersion: vgpumgr/v1\nkind: Pool\nname: cad\nmax: 2\nimage: cad@1\n"
        "gpus: [{profile: T4-2Q}]\nmemory: 1GiB\nentitlement: {users: [ada]}\n"
    )
    file = cli.file(VM + pool)
    assert "create  web" in (told := cli.ok("plan", "-f", file).out) and "create  pool cad" in told
    done = cli.ok("apply", "-f", file, "-o", "json").json
    assert done["vms"]["changes"] == done["pools"]["changes"] == 1
    assert names(cli.items("pool", "list")) == ["cad"]
    cli.ok("diff", "-f", file)
    cli.ok("delete", "-f", file, "--force", "-y")
    assert cli.items("vm", "list") == [] and cli.items("pool", "list") == []


def test_delete_of_a_file_whose_vms_run_names_them_and_the_command(cli: Cli) -> None:
    file = cli.documents(vm("web"), vm("web-2"))
    cli.ok("apply", "-f", file)
    refused = cli.fails(4, "delete", "-f", file, "-y", "-o", "json").error
    assert refused["message"] == "still running: web, web-2"
    command = refused["next"].split("   ")[0]
    assert command == f"vgpumgr delete -f {file} --force"
    cli.ok(*command.split()[1:], "-y")
    assert cli.items("vm", "list") == []

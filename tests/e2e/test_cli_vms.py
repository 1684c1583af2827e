"""The life of a VM at the command line, and what is refused on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, host_dumps, names, new_cli, sim_host, vm

pytestmark = pytest.mark.mainline


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 2)))
        yield found


@pytest.fixture
def cli(fleet: Cli) -> Iterator[Cli]:
    """The fleet, empty again after every test."""
    yield fleet
    for name in names(fleet.items("vm", "list")):
        fleet.ok("vm", "delete", name, "--force", "-y")
    assert fleet.items("allocation", "list") == []


def power(cli: Cli, name: str) -> str:
    return str(cli.ok("vm", "show", name, "-o", "json").json["power"])


def device(cli: Cli, name: str) -> str:
    return str(cli.ok("vm", "show", name, "-o", "json").json["gpus"][0]["device"])


def refusal(cli: Cli, code: int, *args: str) -> dict[str, Any]:
    """The error object; commands without -o print the same words for people."""
    failed = cli.fails(code, *args)
    assert failed.err.startswith("error: ") or "\nerror: " in failed.err
    return {"text": failed.err}


def test_a_vm_made_from_flags_lives_stops_starts_reboots_and_goes(cli: Cli) -> None:
    flags = ["--profile", "T4-2Q", "--disk", "20GiB", "--network", "default", "--memory", "2GiB"]
    assert "create" in cli.ok("vm", "create", "a", *flags).out
    assert power(cli, "a") == "running"
    before = device(cli, "a")
    cli.ok("vm", "stop", "a")
    assert power(cli, "a") == "shutoff"
    assert names(cli.items("allocation", "list")) == [_allocation(cli)]
    cli.ok("vm", "start", "a")
    cli.ok("vm", "reboot", "a")
    cli.ok("vm", "reboot", "a", "--force")
    assert power(cli, "a") == "running"
    assert device(cli, "a") == before
    assert "volumes that go: default/a-" in cli.ok("vm", "delete", "a", "--force", "-y").err
    assert cli.items("vm", "list") == []
    assert _allocation(cli, released=True)


def _allocation(cli: Cli, *, released: bool = False) -> str:
    flags = ["--released"] if released else []
    return names(cli.items("allocation", "list", *flags))[-1]


def test_flags_and_file_make_the_same_vm(cli: Cli) -> None:
    cli.ok("vm", "create", "a", "--profile", "T4-2Q", "--vcpus", "1", "--memory", "1GiB")
    same = cli.documents(vm("a", "T4-2Q"))
    assert "nothing to change" in cli.ok("apply", "-f", same).out


def test_creating_what_exists_is_a_conflict(cli: Cli) -> None:
    cli.ok("vm", "create", "a")
    failed = cli.fails(4, "vm", "create", "a", "-o", "json")
    assert failed.error["next"] == "vgpumgr vm show a"


def test_a_vm_without_a_gpu_is_fine(cli: Cli) -> None:
    cli.ok("vm", "create", "a", "--vcpus", "1", "--memory", "1GiB")
    assert cli.items("allocation", "list") == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--profile", "T4-2QQ"], "did you mean T4-2Q"),
        (["--vcpus", "0"], "vcpus"),
        (["--memory", "lots"], "memory"),
        (["--disk", "10"], "size"),
        (["--network", "a/b"], "network"),
        (["--display"], "display"),
    ],
)
def test_flags_go_through_the_same_checks_as_a_file(cli: Cli, flags: list[str], says: str) -> None:
    assert says in refusal(cli, 2, "vm", "create", "a", *flags)["text"]
    assert cli.items("vm", "list") == []


def test_what_does_not_fit_says_what_to_ask_next(cli: Cli) -> None:
    failed = cli.fails(5, "vm", "create", "a", "--memory", "1TiB", "-o", "json")
    assert failed.error["next"] == "vgpumgr capacity"
    failed = cli.fails(5, "apply", "-f", cli.documents(vm("a", memory="1TiB")), "-o", "json")
    assert failed.error["next"].startswith("vgpumgr explain -f ")
    assert cli.items("operation", "list", "--open") == []


def test_all_or_nothing_unless_partial(cli: Cli) -> None:
    given = cli.documents(vm("fits", "T4-16Q", replicas=2), vm("not", "T4-16Q"))
    assert "not cannot be placed" in cli.fails(5, "apply", "-f", given).err
    assert cli.items("vm", "list") == []
    partly = cli.fails(7, "apply", "-f", given, "--partial", "-o", "json")
    assert partly.error["message"] == "1 of 3 VMs could not be placed"
    assert names(cli.items("vm", "list")) == ["fits-01", "fits-02"]


def test_deleting_a_running_vm_needs_force(cli: Cli) -> None:
    cli.ok("vm", "create", "a")
    assert "--force" in refusal(cli, 4, "vm", "delete", "a", "-y")["text"]
    assert power(cli, "a") == "running"
    cli.ok("vm", "stop", "a")
    cli.ok("vm", "delete", "a", "-y")


def test_deleting_asks_and_without_a_terminal_refuses(cli: Cli) -> None:
    cli.ok("vm", "create", "a")
    assert "add -y" in refusal(cli, 2, "vm", "delete", "a", "--force")["text"]
    given = cli.documents(vm("a"))
    assert "add -y" in refusal(cli, 2, "delete", "-f", given, "--force")["text"]
    assert names(cli.items("vm", "list")) == ["a"]


def test_disks_are_kept_on_request(cli: Cli) -> None:
    cli.ok("vm", "create", "a", "--disk", "1GiB")
    (volume,) = cli.ok("vm", "show", "a", "-o", "json").json["volumes"]
    ran = cli.ok("vm", "delete", "a", "--force", "-y", "--keep-disks")
    assert "volumes that go" not in ran.err
    with sim_host(cli, "one") as found:
        assert found.storage.look(volume["pool"], volume["name"]) is not None
        found.storage.delete(volume["pool"], volume["name"])


def test_deleting_leaves_the_host_as_it_was(cli: Cli) -> None:
    before = host_dumps(cli)
    given = cli.documents(
        vm("a", "T4-2Q", disks=[{"mode": "overlay", "image": "debian-12.qcow2"}]),
        vm("b", "passthrough", disks=[{"mode": "copy", "image": "debian-12.qcow2"}]),
        vm("c", disks=[{"size": "1GiB"}], cloud_init={"user_data": "#cloud-config\n"}),
    )
    cli.ok("apply", "-f", given)
    assert host_dumps(cli) != before
    cli.ok("delete", "-f", given, "--force", "-y")
    assert host_dumps(cli) == before


def test_several_vms_at_once(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("a", replicas=3)))
    cli.ok("vm", "stop", "a-01", "a-02", "a-03")
    assert {item["power"] for item in cli.items("vm", "list")} == {"shutoff"}
    failed = cli.fails(3, "vm", "start", "a-01", "nobody")
    assert "no VM nobody" in failed.err
    assert power(cli, "a-01") == "shutoff"


def test_applying_starts_nothing_that_was_stopped_on_purpose(cli: Cli) -> None:
    given = cli.documents(vm("a"))
    cli.ok("apply", "-f", given)
    cli.ok("vm", "stop", "a")
    assert "nothing to change" in cli.ok("apply", "-f", given).out
    assert power(cli, "a") == "shutoff"


def test_a_change_that_needs_a_stop_is_refused_unless_allowed(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("a")))
    bigger = cli.documents(vm("a", vcpus=2))
    assert cli.fails(10, "diff", "-f", bigger).out
    assert "--restart" in refusal(cli, 4, "apply", "-f", bigger)["text"]
    assert cli.ok("vm", "show", "a", "-o", "json").json["vcpus"] == 1
    cli.ok("apply", "-f", bigger, "--restart")
    assert cli.ok("vm", "show", "a", "-o", "json").json["vcpus"] == 2
    assert "nothing to change" in cli.ok("apply", "-f", bigger).out


def test_another_gpu_profile_is_one_apply_and_a_stop(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("a", "T4-2Q", disks=[{"size": "1GiB"}])))
    before, had = cli.items("vm", "list")[0]["id"], device(cli, "a")
    file = cli.documents(vm("a", "T4-4Q", disks=[{"size": "2GiB"}, {"size": "1GiB"}]))
    assert cli.fails(4, "apply", "-f", file, "-o", "json").error["next"].endswith("--restart")
    cli.ok("apply", "-f", file, "--restart")
    assert cli.items("vm", "list")[0]["id"] == before and device(cli, "a") != had
    assert "nothing to change" in cli.ok("apply", "-f", file).out


@pytest.mark.parametrize("command", [["vm", "create"], ["vm", "clone", "a"]])
def test_a_new_name_is_a_name_that_nothing_has(cli: Cli, command: list[str]) -> None:
    cli.ok("vm", "create", "a")
    cli.ok("vm", "stop", "a", "--force")
    waits = vm("late", "T4-16Q", "T4-16Q", "T4-16Q", queue={"await_hosts": True})
    cli.ok("apply", "-f", cli.documents(waits))
    for name in ("Bad_Name", "a" * 64, "-x", "ä"):
        assert cli.fails(2, *command, "--", name).err
    assert "exists already" in cli.fails(4, *command, "a").err
    assert "waits in the queue" in cli.fails(4, *command, "late").err
    assert names(cli.items("vm", "list")) == ["a"]
    assert cli.items("queue", "list")[0]["state"] == "waiting"


def test_the_xml_is_that_of_the_host(cli: Cli) -> None:
    cli.ok("vm", "create", "a", "--profile", "T4-2Q")
    xml = cli.ok("vm", "xml", "a").out
    with sim_host(cli, "one") as found:
        assert xml == found.domains.xml("a")
    assert device(cli, "a") in xml


def test_a_name_given_twice_counts_once(cli: Cli) -> None:
    cli.ok("vm", "create", "a")
    assert "1 of 1 done" in cli.ok("vm", "stop", "a", "a").out
    assert "1 of 1 done" in cli.ok("vm", "delete", "a", "a", "-y").out


def test_a_change_is_printed_as_json_on_request(cli: Cli) -> None:
    cli.ok("vm", "create", "a")
    stopped = cli.ok("vm", "stop", "a", "-o", "json")
    assert stopped.err == ""
    (outcome,) = stopped.json["vms"]
    done = {"name": "a", "host": "one", "verb": "stop", "state": "done", "error": ""}
    assert outcome == done
    deleted = cli.ok("vm", "delete", "a", "-y", "-o", "json")
    assert (deleted.err, deleted.json["kind"]) == ("", "Outcome")


@pytest.mark.parametrize(("answer", "left"), [("n", ["a"]), ("y", [])])
def test_a_question_is_answered_at_the_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: str, left: list[str]
) -> None:
    cli.ok("vm", "create", "a")
    monkeypatch.setattr("vgpumgr.cli.terminal.at_a_terminal", lambda: True)
    ran = cli("vm", "delete", "a", "--force", stdin=f"{answer}\n".encode())
    assert "delete 1 VM: a?" in ran.err
    assert ran.code == (0 if answer == "y" else 1)
    assert names(cli.items("vm", "list")) == left

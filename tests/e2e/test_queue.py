"""VMs that wait for room: entered by `apply`, worked by `serve`, seen and cancelled by `queue`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, names, new_cli, sim_host, vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)))
        yield made


def power_off(cli: Cli, *vms: str) -> None:
    """Their guests power off by themselves."""
    with sim_host(cli, "h1") as there:
        for name in vms:
            there.domains.shutdown(name)


def serve(cli: Cli) -> Any:
    """One turn of every host, then one of the queue; what it told."""
    return cli("serve", "--once", "-o", "json").out


def states(cli: Cli) -> dict[str, str]:
    return {each["name"]: each["state"] for each in cli.items("queue", "list")}


def test_three_wait_one_for_anothers_end_and_one_preempts_a_spot_vm(cli: Cli) -> None:
    whole = {"disks": [{"size": "1GiB"}]}
    cli.ok("apply", "-f", cli.documents(vm("spot", "T4-16Q", queue={"spot": True}, **whole)))
    queue = cli.documents(
        vm("urgent", "T4-16Q", queue={"priority": "high"}),
        vm("first", "T4-16Q", queue=True),
        vm("second", "T4-8Q", queue={"after": ["first"]}),
    )
    planned = cli.ok("plan", "-f", queue)
    assert "waits  urgent  position 1" in planned.out
    assert names(cli.items("queue", "list")) == ["spot"]
    shown = cli.ok("apply", "-f", queue).out
    assert "3 in the queue" in shown and "waits  second  position 3: after first" in shown
    again = cli.ok("apply", "-f", queue).out
    assert again.count("it is queued already") == 3
    assert names(cli.items("vm", "list")) == ["spot"]
    assert "3 VMs in the queue" in cli.ok("vm", "list").err

    serve(cli)
    assert states(cli) == {
        "urgent": "running", "first": "waiting", "second": "waiting", "spot": "waiting",
    }  # fmt: skip
    shelved = next(each for each in cli.items("vm", "list") if each["name"] == "spot")
    assert (shelved["state"], len(shelved["volumes"]), shelved["gpus"]) == ("shelved", 1, [])
    assert "preempted for urgent" in cli.ok("queue", "show", "spot").out
    assert cli.ok("audit", "list", "--vm", "spot", "--event", "queue.waiting").rows

    power_off(cli, "urgent")
    serve(cli)
    assert states(cli)["spot"] == "running"
    power_off(cli, "spot")
    serve(cli)
    assert states(cli) == {"first": "running", "second": "waiting"}
    power_off(cli, "first")
    serve(cli)
    assert states(cli) == {"second": "running"}
    assert cli.ok("queue", "show", "first").out.startswith("Name:       first\nState:      ended")
    assert cli.ok("drift").code == 0


def test_what_waits_is_refused_held_back_and_taken_out(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("desk", "T4-8Q")))
    wants = {"gpus": [{"profile": "T4-8Q"}], "queue": {"together": True}}
    two = cli.documents({**vm("pair"), **wants, "replicas": 2}, name="two.yaml")
    assert "not enough capacity yet for all of pair" in cli.ok("apply", "-f", two).out
    assert serve(cli) == ""
    assert states(cli) == {"pair-01": "waiting", "pair-02": "waiting"}
    other = cli.documents({**vm("pair"), **wants, "replicas": 2, "vcpus": 2}, name="other.yaml")
    refused = cli.fails(4, "apply", "-f", other).err
    assert "vgpumgr queue cancel pair-01" in refused
    late = cli.documents(vm("late", "T4-8Q", queue=True), name="late.yaml")
    cli.ok("apply", "-f", late)
    assert "removed from the queue: late" in cli.ok("delete", "-f", late, "-y").err
    assert "late" not in states(cli)
    nobody = cli.documents(vm("late", "T4-1Q", queue={"after": ["nobody"]}))
    assert "nobody, which is not in the queue" in cli.fails(3, "apply", "-f", nobody).err

    cli.ok("vm", "stop", "desk", "--force", "--release-gpu")
    serve(cli)
    assert states(cli) == {"pair-01": "running", "pair-02": "running"}
    assert "desk cannot be placed" in cli.fails(5, "vm", "start", "desk").err
    assert "pair-01 runs" in cli.fails(4, "queue", "cancel", "pair-01").err
    cli.ok("quota", "set", "default", "--vms", "2")
    cli.ok("apply", "-f", cli.documents(vm("more", "T4-1Q", queue=True)))
    assert "VMs" in next(e["why"] for e in cli.items("queue", "list") if e["name"] == "more")
    assert "more" in cli.ok("queue", "explain").out
    for verb in ("show", "start", "delete"):
        assert "vgpumgr queue show more" in cli.fails(3, "vm", verb, "more").err
    cli.ok("queue", "cancel", "more")
    assert "more is not in the queue" in cli.fails(3, "queue", "cancel", "more").err
    assert "more" not in states(cli)
    assert cli.ok("queue", "show", "more", "-o", "json").json["state"] == "cancelled"
    cli.ok("vm", "delete", "pair-01", "--force", "-y")
    cli.ok("vm", "start", "desk")
    assert states(cli) == {"pair-02": "running"}


def test_a_boot_ends_nobody(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("job", "T4-16Q", queue=True)))
    serve(cli)
    cli.ok("apply", "-f", cli.documents(vm("next", "T4-1Q", queue={"after": ["job"]})))
    cli.ok("sim", "inject", "h1", "reboot")
    told = serve(cli)
    assert "host-rebooted" in told and "queue-ended" not in told
    assert states(cli) == {"job": "running", "next": "waiting"}
    assert [each["power"] for each in cli.items("vm", "list")] == ["running"]


def test_what_no_host_could_ever_hold_is_refused_at_once_unless_it_awaits_hosts(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("full", "T4-16Q")))
    never = {
        "cpus": vm("cpus", "T4-4Q", vcpus=500, queue=True),
        "memory": vm("memory", memory="900GiB", queue=True),
        "gpus": vm("gpus", "T4-16Q", "T4-16Q", queue=True),
        "group": {**vm("group", "T4-16Q", queue={"together": True}), "replicas": 2},
    }
    for name, asked in never.items():
        refused = cli("apply", "-f", cli.documents(asked))
        assert refused.code == 5, f"{name} waits for ever: {refused.out}"
        assert "no host of the fleet could hold it" in refused.err
    assert cli.items("queue", "list") == []
    fits = vm("fits", "T4-16Q", queue=True)
    late = vm("late", "T4-4Q", vcpus=500, queue={"await_hosts": True})
    cli.ok("apply", "-f", cli.documents(fits, late))
    why = {each["name"]: each["why"] for each in cli.items("queue", "list")}
    assert "no host has enough free capacity" in why["fits"]
    assert "no host of the fleet could ever hold it" in why["late"] and "500" in why["late"]
    assert "could ever hold it" in cli.ok("queue", "show", "late").out

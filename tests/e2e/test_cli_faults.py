"""Interruptions, kills, hosts that do not answer and hosts that reboot: the same command finishes.

`sim inject … latency` makes the middle of an apply wide enough to be met.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.support import (
    Cli,
    Ran,
    finish,
    host,
    host_dumps,
    interrupt,
    names,
    new_cli,
    until,
    vm,
)

LATENCY_S = "0.08"
VMS = vm("a", "T4-2Q", replicas=4, disks=[{"size": "1GiB"}], policy="breadth-first")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Two hosts with a T4 each; no call is cut unless a test says so."""
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "300")
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)))
        yield found


def power(cli: Cli) -> dict[str, str]:
    return {item["name"]: item["power"] for item in cli.items("vm", "list")}


def open_operations(cli: Cli) -> list[str]:
    return names(cli.items("operation", "list", "--open"))


def slow(cli: Cli, latency: str = LATENCY_S) -> None:
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "latency", latency)


def fast(cli: Cli) -> None:
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "clear")


def in_the_middle(cli: Cli, *args: str) -> subprocess.Popen[str]:
    """Start an apply over slow hosts, and come back when it has made some but not all."""
    slow(cli)
    process = cli.process("apply", "-f", cli.documents(VMS), *args)
    until(lambda: _steps_done(cli) >= 2, "the first steps of the apply")
    return process


def held_in_the_middle(cli: Cli) -> subprocess.Popen[str]:
    """The same, with every host call held until ``fast``."""
    process = in_the_middle(cli)
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "hang")
    return process


def _steps_done(cli: Cli) -> int:
    return sum(
        step["state"] == "done"
        for operation in open_operations(cli)
        for task in cli.ok("operation", "show", operation, "-o", "json").json["tasks"]
        for step in task["steps"]
    )


def interrupted(cli: Cli) -> str:
    """Ctrl-C in the middle of an apply: its exit, its words, and the operation it left."""
    process = held_in_the_middle(cli)
    press_ctrl_c(process)
    fast(cli)
    ran = finish(process)
    assert ran.code == 130, ran.err
    (operation,) = open_operations(cli)
    assert f"next: vgpumgr operation resume {operation}" in ran.err
    assert "Traceback" not in ran.err
    return operation


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Interrupt, and wait until the program has taken note."""
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert "waiting for running host calls" in process.stderr.readline()


def all_run_and_nothing_is_open(cli: Cli) -> None:
    assert power(cli) == dict.fromkeys(("a-01", "a-02", "a-03", "a-04"), "running")
    assert {each["state"] for each in cli.items("allocation", "list")} == {"active"}
    assert open_operations(cli) == []
    assert "nothing to change" in cli.ok("apply", "-f", cli.documents(VMS)).out


def taken_back(cli: Cli, before: list[dict[str, object]]) -> None:
    """After deleting what is left, the hosts are as they were."""
    for name in names(cli.items("vm", "list")):
        cli.ok("vm", "delete", name, "--force", "-y")
    assert cli.items("allocation", "list") == []
    assert host_dumps(cli) == before


def test_an_interrupted_apply_is_finished_by_resume(cli: Cli) -> None:
    before = host_dumps(cli)
    operation = interrupted(cli)
    assert "4 of 4 done" in cli.ok("operation", "resume", operation).out
    all_run_and_nothing_is_open(cli)
    taken_back(cli, before)


def test_an_interrupted_apply_is_finished_by_the_same_command(cli: Cli) -> None:
    interrupted(cli)
    cli.ok("apply", "-f", cli.documents(VMS))
    all_run_and_nothing_is_open(cli)


def test_an_interrupted_apply_is_taken_back_by_undo(cli: Cli) -> None:
    before = host_dumps(cli)
    operation = interrupted(cli)
    cli.ok("operation", "undo", operation)
    assert open_operations(cli) == []
    left = names(cli.items("vm", "list"))
    assert len(left) < 4
    assert len(cli.items("allocation", "list")) == len(left)
    taken_back(cli, before)


def test_undo_that_cannot_reach_a_host_says_so_and_can_be_repeated(cli: Cli) -> None:
    operation = interrupted(cli)
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "unreachable")
    failed = cli.fails(7, "operation", "undo", operation, "-o", "json")
    assert failed.error["next"] == f"vgpumgr operation undo {operation}"
    assert open_operations(cli) == [operation]
    fast(cli)
    cli.ok("operation", "undo", operation)
    assert open_operations(cli) == []


def test_an_interrupted_apply_is_one_json_object_on_stderr(cli: Cli) -> None:
    ran = interrupt(in_the_middle(cli, "-o", "json"))
    assert ran.error["exit"] == ran.code == 130
    assert ran.error["code"] == "interrupted"


def test_the_second_interrupt_ends_at_once_even_when_a_host_hangs(cli: Cli) -> None:
    process = held_in_the_middle(cli)
    press_ctrl_c(process)
    ran = interrupt(process)
    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert "vgpumgr operation list --open" in ran.err
    fast(cli)
    cli.ok("apply", "-f", cli.documents(VMS))
    all_run_and_nothing_is_open(cli)


def test_a_killed_apply_is_finished_by_the_same_command(cli: Cli) -> None:
    before = host_dumps(cli)
    process = held_in_the_middle(cli)
    assert interrupt(process, signal.SIGKILL).code == -signal.SIGKILL
    fast(cli)
    assert "is running" in cli("doctor").out
    cli.ok("apply", "-f", cli.documents(VMS))
    all_run_and_nothing_is_open(cli)
    taken_back(cli, before)


def test_reading_ends_at_the_first_interrupt_even_when_a_host_hangs(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "hang")
    process = cli.process("host", "probe")
    until(lambda: _waits_for_the_fleet(process), "the probe to ask the hosts")
    ran = interrupt(process)
    assert (ran.code, ran.err) == (130, "error: interrupted\n")


def _waits_for_the_fleet(process: subprocess.Popen[str]) -> bool:
    """It has a lane for each host."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        threads = next(line for line in status if line.startswith("Threads:"))
    return int(threads.split()[1]) > 1


def test_a_running_operation_can_neither_be_resumed_nor_undone_by_another(cli: Cli) -> None:
    process = held_in_the_middle(cli)
    (operation,) = open_operations(cli)
    for verb in ("resume", "undo"):
        refused = cli.fails(4, "operation", verb, operation).err
        assert f"process {process.pid} on" in refused
        assert "is working on it" in refused
    fast(cli)
    assert finish(process).code == 0
    all_run_and_nothing_is_open(cli)


@pytest.mark.parametrize("fault", ["hang", "unreachable"])
def test_a_host_that_stops_answering_delays_only_itself(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "1")
    process = in_the_middle(cli)
    cli.ok("sim", "inject", "one", fault)
    ran = finish(process)
    assert ran.code == 7, ran.err
    assert "VMs are done" in ran.err
    on_two = [item for item in cli.items("vm", "list") if item["host"] == "two"]
    assert {item["power"] for item in on_two} == {"running"}
    assert len(open_operations(cli)) == 1
    fast(cli)
    cli.ok("apply", "-f", cli.documents(VMS))
    all_run_and_nothing_is_open(cli)


@pytest.mark.parametrize("fault", ["hang", "unreachable"])
def test_what_is_read_without_one_host_says_so_and_exits_7(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "0.5")
    cli.ok("sim", "inject", "one", fault)
    given = cli.documents(vm("a", "T4-2Q"))
    reading = ("vm list", "host list", "gpu list", "map", "capacity")
    for args in map(str.split, reading if fault == "unreachable" else reading[:1]):
        ran: Ran = cli.fails(7, *args, "--refresh", "-o", "json")
        assert ran.json
        assert "one" in ran.error["why"]
    for verb in ("plan", "diff"):
        assert cli.fails(7, verb, "-f", given, "-o", "json").json["changes"] == 1
    assert cli.fails(7, "apply", "-f", given, "-o", "json").error["message"] == (
        "1 host could not be read"
    )
    assert power(cli) == {"a": "running"}
    states = {item["name"]: item["state"] for item in cli.items("host", "list")}
    assert states == {"one": "unreachable", "two": "ready"}
    fast(cli)
    assert "nothing to change" in cli.ok("apply", "-f", given).out


def test_a_request_that_only_an_unread_host_could_take_is_told_apart(cli: Cli) -> None:
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "unreachable")
    failed = cli.fails(6, "apply", "-f", cli.documents(vm("a", "T4-2Q")), "-o", "json")
    assert failed.error["code"] == "host.unreachable"


def test_a_device_that_is_refused_everywhere_undoes_that_vm_alone(cli: Cli) -> None:
    before = host_dumps(cli)
    cli.ok("sim", "inject", "one", "refuse", "mdev_create", "EIO", "1")
    given = cli.documents({**VMS, "affinity": {"hosts": ["one"]}})
    ran = cli.fails(7, "apply", "-f", given)
    assert "3 of 4 VMs are done" in ran.err
    assert "create undone" in ran.err
    assert len(cli.items("vm", "list")) == len(cli.items("allocation", "list")) == 3
    assert open_operations(cli) == []
    cli.ok("apply", "-f", given)
    assert set(power(cli).values()) == {"running"}
    assert open_operations(cli) == []
    taken_back(cli, before)


def test_a_domain_that_does_not_start_is_taken_back_with_its_disk_and_device(cli: Cli) -> None:
    before = host_dumps(cli)
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "refuse", "domains.start", "EIO", "1")
    flags = ["--profile", "T4-2Q", "--disk", "1GiB"]
    failed = cli.fails(1, "vm", "create", "a", *flags, "-o", "json")
    assert failed.error["code"] == "host.refused"
    assert cli.items("vm", "list") == cli.items("allocation", "list") == []
    fast(cli)
    assert host_dumps(cli) == before


@pytest.mark.parametrize("command", ["vm start", "apply"])
def test_after_a_reboot_a_vm_comes_back_with_the_same_device(cli: Cli, command: str) -> None:
    given = cli.documents(vm("a", "T4-2Q"))
    cli.ok("apply", "-f", given)
    before = cli.ok("vm", "show", "a", "-o", "json").json
    cli.ok("sim", "inject", before["host"], "reboot")
    (listed,) = cli.items("vm", "list", "--refresh")
    assert listed["power"] == "shutoff"
    if command == "apply":
        assert "is not running" in cli.fails(10, "diff", "-f", given).out
    cli.ok(*command.split(), *(["-f", given] if command == "apply" else ["a"]))
    after = cli.ok("vm", "show", "a", "-o", "json").json
    assert after["power"] == "running"
    assert after["gpus"] == before["gpus"]
    assert after["gpus"][0]["device"] in cli.ok("vm", "xml", "a").out


def test_a_whole_gpu_comes_back_after_a_reboot(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("a", "passthrough")))
    on = cli.ok("vm", "show", "a", "-o", "json").json["host"]
    cli.ok("sim", "inject", on, "reboot")
    cli.ok("vm", "start", "a")
    assert power(cli) == {"a": "running"}
    cli.ok("vm", "delete", "a", "--force", "-y")


def test_a_power_cut_of_the_whole_fleet_is_mended_by_the_same_command(cli: Cli) -> None:
    given = cli.documents(VMS)
    cli.ok("apply", "-f", given)
    cli.ok("sim", "down")
    cli.ok("sim", "up", "-f", str(cli.folder / "fleet.yaml"))
    assert set(power(cli).values()) == {"shutoff"}
    assert cli.ok("apply", "-f", given).out.count("start") == 4
    all_run_and_nothing_is_open(cli)

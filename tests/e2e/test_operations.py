"""Operations as a user sees them: what they are, whose they are, and what is left of them to do."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, finish, host, names, new_cli, until, vm

WANTED = vm("web", "T4-2Q", replicas=8)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Two hosts with a T4 each; no call is cut."""
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "300")
    with new_cli() as found:
        found.sim_up(host("h1", ("T4", 1)), host("h2", ("T4", 1)))
        yield found


def all_hosts(cli: Cli, *fault: str) -> None:
    for name in ("h1", "h2"):
        cli.ok("sim", "inject", name, *fault)


def running_domains(cli: Cli) -> int:
    found: int = cli.ok("sim", "status", "-o", "json").json["running_domains"]
    return found


def under_way(cli: Cli) -> subprocess.Popen[str]:
    """An apply that has made some of its VMs, and whose next calls do not return."""
    all_hosts(cli, "latency", "0.1")
    process = cli.process("apply", "-f", cli.documents(WANTED))
    until(lambda: running_domains(cli) >= 2, "a few VMs run")
    all_hosts(cli, "hang")
    return process


def interrupted(cli: Cli) -> tuple[str, str]:
    """Ctrl-C in the middle of an apply: the operation, and what was said."""
    process = under_way(cli)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert "waiting for running host calls" in process.stderr.readline()
    all_hosts(cli, "clear")
    ran = finish(process)
    assert ran.code == 130, ran.err
    return the_open_one(cli)["name"], ran.err


def the_open_one(cli: Cli) -> dict[str, Any]:
    (found,) = cli.items("operation", "list", "--open")
    return found


def test_undo_of_an_operation_that_is_done_is_refused_with_what_to_type_instead(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("desk", "T4-2Q")))
    (operation,) = [each for each in cli.items("operation", "list") if each["kind"] == "apply"]
    refused = cli.fails(4, "operation", "undo", operation["name"], "-o", "json").error
    assert "is done: there is nothing left to undo" in refused["message"]
    assert refused["next"].startswith("vgpumgr vm delete --force desk")
    assert running_domains(cli) == 1
    cli.ok(*refused["next"].split("   ")[0].split()[1:], "-y")
    (deleted,) = [each for each in cli.items("operation", "list") if "delete" in each["kind"]]
    refused = cli.fails(4, "operation", "undo", deleted["name"], "-o", "json").error
    assert refused["next"] == f"vgpumgr operation show {deleted['name'][:8]}"


def test_what_a_person_interrupted_is_left_to_that_person_for_a_while(cli: Cli) -> None:
    operation, said = interrupted(cli)
    made = running_domains(cli)
    assert made < 8
    cli.fails(7, "serve", "--once")  # a whole turn of every host; the operation is still open
    assert running_domains(cli) == made
    assert "serve will finish it at " in said
    assert (
        f"next: vgpumgr operation resume {operation}   (or: vgpumgr operation undo {operation})"
        in said
    )
    listed = cli.ok("operation", "list", "--open").out
    assert "interrupted" in listed
    assert "until" in listed
    item = the_open_one(cli)
    assert item["left_until"] > item["started_at"]
    cli.ok("operation", "undo", operation)
    left = names(cli.items("vm", "list"))
    cli.ok("serve", "--once")  # nothing goes on after the undo
    assert names(cli.items("vm", "list")) == left
    assert running_domains(cli) == len(left) <= made
    assert not cli.items("operation", "list", "--open")


def test_serve_finishes_what_nobody_came_back_for(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_INTERRUPTED_S", "0")
    _, said = interrupted(cli)
    assert "serve will finish it" not in said
    cli.ok("serve", "--once")
    assert running_domains(cli) == 8


def test_a_second_ctrl_c_leaves_it_to_that_person_too(cli: Cli) -> None:
    process = under_way(cli)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    assert "waiting for running host calls" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    all_hosts(cli, "clear")
    made = running_domains(cli)
    cli.fails(7, "serve", "--once")
    assert running_domains(cli) == made < 8
    assert the_open_one(cli)["state"] == "interrupted"


def test_an_undo_that_is_interrupted_goes_on_as_an_undo(cli: Cli) -> None:
    operation, _ = interrupted(cli)
    made = running_domains(cli)
    all_hosts(cli, "hang")
    undo = cli.process("operation", "undo", operation)
    until(
        lambda: any(
            task["state"] == "undoing"
            for task in cli.ok("operation", "show", operation, "-o", "json").json["tasks"]
        ),
        "the undo has begun",
    )
    undo.kill()
    finish(undo)
    all_hosts(cli, "clear")
    cli("serve", "--once")
    assert running_domains(cli) <= made
    assert not cli.items("operation", "list", "--open")


def test_an_apply_that_was_killed_is_not_running(cli: Cli) -> None:
    process = under_way(cli)
    live = the_open_one(cli)
    refused = cli.fails(4, "operation", "undo", live["name"], "-o", "json").error
    process.kill()
    finish(process)
    all_hosts(cli, "clear")
    dead = the_open_one(cli)
    assert (live["state"], dead["state"]) == ("running", "abandoned")
    assert f"process {process.pid} on" in refused["why"]
    shown = cli.ok("operation", "show", dead["name"]).out
    assert "its process died" in shown
    assert f"operation undo {dead['name']}" in shown

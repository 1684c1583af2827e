"""`vgpumgr serve` as a process over the simulated fleet: it ends what died, and itself well."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.support import Cli, finish, host, host_dumps, new_cli, sim_host, until, vm

SMALL = [host(f"h{n}", ("T4", 2)) for n in (1, 2)]


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(*SMALL)
        yield made


class Serving:
    """A running `serve` and what it tells."""

    def __init__(self, cli: Cli, *args: str) -> None:
        self.process = cli.process("serve", "-o", "json", *args)
        self.events: list[dict[str, Any]] = []
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def told(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def terminate(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said on stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self._end()

    def _end(self) -> tuple[int, str]:
        assert self.process.stdout is not None and self.process.stderr is not None
        if not self.process.stderr.closed:
            self.process.wait(60)
            self._reader.join()
            self.said = self.process.stderr.read()
            self.process.stdout.close()
            self.process.stderr.close()
        return self.process.returncode, self.said


@contextmanager
def serving(cli: Cli, *args: str) -> Iterator[Serving]:
    made = Serving(cli, *args)
    try:
        yield made
    finally:
        code, said = made.terminate()
        assert (code, said) in {(0, ""), (-signal.SIGKILL, "")}


def open_operations(cli: Cli) -> list[dict[str, Any]]:
    return cli.items("operation", "list", "--open")


def running(cli: Cli) -> dict[str, list[str]]:
    """Running domains by host, as the hosts know them."""
    return {
        dump["host"]: sorted(d["name"] for d in dump["domains"] if d["state"] == "running")
        for dump in host_dumps(cli)
    }


def how_many(cli: Cli) -> int:
    """Running domains of the whole fleet; the slowest host does not delay this."""
    found: int = cli.ok("sim", "status", "-o", "json").json["running_domains"]
    return found


def slow(cli: Cli, seconds: str) -> None:
    """So long takes each call to a host."""
    for name in ("h1", "h2"):
        cli.ok("sim", "inject", name, "latency", seconds)


def mdevs(cli: Cli) -> set[str]:
    return {mdev["uuid"] for dump in host_dumps(cli) for mdev in dump["mdevs"]}


def status(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cli.state / "serve.json").read_text())
    return found


def killed_apply(cli: Cli, replicas: int) -> None:
    """An apply whose process is killed in the middle; the hosts stay slow."""
    slow(cli, "0.15")
    apply = cli.process(
        "apply", "-f", cli.documents(vm("web", "T4-2Q", replicas=replicas, policy="breadth-first"))
    )
    until(lambda: how_many(cli) >= 2, "a few VMs run")
    apply.kill()
    finish(apply)
    assert len(open_operations(cli)) == 1
    slow(cli, "0.02")


def test_what_a_killed_apply_left_is_finished_at_once(cli: Cli) -> None:
    with serving(cli, "--interval", "600") as served:  # it does not wait for a host's next turn
        until(lambda: (cli.state / "serve.json").exists(), "it serves")
        killed_apply(cli, 12)
        until(lambda: not open_operations(cli), "the apply has ended")
        until(lambda: bool(served.told("operation-ended")), "it was told")
    assert how_many(cli) == 12
    cli.ok("drift", "--ignore-foreign")
    (ended,) = served.told("operation-ended")
    assert ended["state"] == "done"
    (operation,) = [each for each in cli.items("operation", "list") if each["kind"] == "apply"]
    assert operation["summary"] == "its process had died; serve closed the operation"


def test_after_a_power_cut_of_a_host_its_vms_run_again_with_the_same_mdevs(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-2Q", replicas=4, policy="breadth-first")))
    before, devices = running(cli), mdevs(cli)
    with serving(cli, "--interval", "2") as served:
        until(lambda: (cli.state / "serve.json").exists(), "it serves")
        cli.ok("sim", "inject", "h1", "reboot")
        until(lambda: bool(served.told("host-restored")), "the host is whole again")
        assert served.terminate(signal.SIGINT) == (0, "")
    assert (running(cli), mdevs(cli)) == (before, devices)
    assert not served.told("drift")
    cli.ok("drift", "--ignore-foreign")


def test_a_host_that_hangs_does_not_delay_the_recovery_of_another(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "300")
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-2Q", replicas=4, policy="breadth-first")))
    before = running(cli)
    with serving(cli, "--interval", "2") as served:
        until(lambda: (cli.state / "serve.json").exists(), "it serves")
        cli.ok("sim", "inject", "h2", "hang")
        until(lambda: "h2" in status(cli)["busy"], "it waits for the hung host")
        cli.ok("sim", "inject", "h1", "reboot")
        until(lambda: bool(served.told("host-restored")), "the other host is whole")
        assert "h2" in status(cli)["busy"]
        assert not served.told("host-unreachable")
        cli.ok("sim", "inject", "h2", "clear")
    assert running(cli) == before


def test_drift_made_by_hand_is_told_and_so_is_its_end(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-2Q")))
    name = cli.items("vm", "list")[0]["host"]
    with serving(cli, "--interval", "1") as served:
        until(lambda: len(_turns(cli)) == 2, "both hosts had a turn")
        assert status(cli)["pid"] == served.process.pid
        assert {each["state"] for each in status(cli)["hosts"]} == {"ok"}
        assert "another `vgpumgr serve`" in cli.fails(4, "serve").err
        assert cli.fails(4, "serve", "--once", "-o", "json").error["code"] == "conflict"
        with sim_host(cli, name) as there:
            there.domains.destroy("web")
            until(lambda: bool(served.told("drift")), "the drift is told")
            there.domains.start("web")
        until(lambda: bool(served.told("drift-ended")), "its end is told")
    (drift,) = served.told("drift")
    assert (drift["drift"], drift["vm"], drift["host"]) == ("power", "web", name)
    assert drift["next"] == "vgpumgr vm start web"


def test_a_killed_controller_is_followed_by_one_that_goes_on(cli: Cli) -> None:
    killed_apply(cli, 8)
    with serving(cli) as first:
        until(lambda: how_many(cli) >= 5, "it goes on")
        first.kill()
    assert open_operations(cli)
    with serving(cli):
        until(lambda: not open_operations(cli), "the apply has ended")
    assert how_many(cli) == 8
    cli.ok("drift", "--ignore-foreign")


def test_a_signal_ends_it_within_a_call_and_leaves_operations_to_be_resumed(cli: Cli) -> None:
    killed_apply(cli, 8)
    cli.ok("sim", "inject", "h2", "latency", "0.6")  # what is on h1 ends long before
    with serving(cli) as served:
        until(lambda: bool(served.told("task-ended")), "it goes on")
        assert served.terminate(signal.SIGTERM) == (0, "")
    assert status(cli)["running"] is False
    slow(cli, "0")
    (left,) = open_operations(cli)
    cli.ok("operation", "resume", left["name"])
    assert how_many(cli) == 8


def test_once_says_by_its_exit_code_what_it_found(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("web", "T4-2Q")))
    name = cli.items("vm", "list")[0]["host"]
    cli.ok("serve", "--once")
    with sim_host(cli, name) as there:
        there.domains.destroy("web")
    told = cli.fails(10, "serve", "--once")
    assert "domain web is shutoff, should be running" in told.out
    assert "next: vgpumgr vm start web" in told.out
    cli.ok("sim", "inject", name, "unreachable")
    assert f"{name}: unreachable" in cli.fails(7, "serve", "--once").err
    assert cli.items("host", "list")[0]["state"] in {"unreachable", "ready"}


def _turns(cli: Cli) -> list[dict[str, Any]]:
    if not (cli.state / "serve.json").exists():
        return []
    return [each for each in status(cli)["hosts"] if each["turn_at"]]

"""The simulated fleet as somebody plays with it: hosts that come, faults, other hands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.support import Cli, finish, host, names, new_cli, sim_host, until, vm

pytestmark = pytest.mark.mainline

OTHER_HANDS = ("destroy", "undefine", "remove-mdev", "off", "on", "reboot", "hang", "unreachable")


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)))
        yield found


def forms(cli: Cli) -> list[str]:
    """What the error for a wrong word lists."""
    listed = cli.fails(2, "sim", "inject", "one", "nonsense", "-o", "json").error["next"]
    return str(listed).split(" | ")


def drift(cli: Cli) -> set[str]:
    return {each["kind"] for each in cli.fails(10, "drift", "-o", "json").json["items"]}


def test_the_help_lists_all_that_can_be_injected(cli: Cli) -> None:
    text = cli.ok("sim", "inject", "--help").out
    lacking = [form for form in forms(cli) if form not in text]
    assert lacking == []
    assert any(line.split()[:2] == ["destroy", "DOMAIN"] for line in text.splitlines())


def test_every_form_is_taken_as_its_example_types_it(cli: Cli) -> None:
    from vgpumgr.sim.fault_forms import TABLE

    cli.ok("apply", "-f", cli.documents(vm("typed", "T4-2Q")))
    gpu = cli.items("gpu", "list")[0]["device"]
    tame = [form for form in TABLE if form.words.split()[0] not in OTHER_HANDS]
    for form in tame:
        words = (form.example or form.words).replace("ADDRESS", gpu).replace("DOMAIN", "typed")
        cli.ok("sim", "inject", "one", *words.split())
        cli.ok("sim", "inject", "one", "clear")
    assert {form.words.split()[0] for form in TABLE} >= set(OTHER_HANDS)
    cli.ok("vm", "delete", "typed", "--force", "-y")
    cli.ok("host", "probe", "one")
    for ill in cli.items("gpu", "list"):
        cli.ok("heal", "--lift", ill["name"])


def test_a_domain_and_an_mdev_go_behind_our_back(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("gone", "T4-4Q")))
    cli.ok("sim", "inject", "one", "destroy", "gone")
    assert drift(cli) == {"power"}
    [mdev] = [each["device"] for each in cli.items("allocation", "list") if each["vm"] == "gone"]
    until(
        lambda: cli("sim", "inject", "one", "remove-mdev", mdev).code == 0,
        "an mdev that no guest uses any more to go",
    )
    with sim_host(cli, "one") as found:
        assert found.probe().mdevs == ()
    cli.ok("sim", "inject", "one", "undefine", "gone")
    assert "domain-missing" in drift(cli)
    assert "it has: none" in cli.fails(3, "sim", "inject", "one", "destroy", "gone").err
    cli.ok("vm", "delete", "gone", "--force", "-y")


def test_one_host_is_added_to_a_fleet_that_is_up_and_comes_up_with_it_again(cli: Cli) -> None:
    cli.ok("sim", "add", "two", "--board", "A40", "--count", "2")
    assert names(cli.items("host", "list")) == ["one", "two"]
    assert [each["model"] for each in cli.items("gpu", "list", "--host", "two")] == ["A40", "A40"]
    assert "has a host two" in cli.fails(4, "sim", "add", "two").err
    assert "did you mean A40" in cli.fails(2, "sim", "add", "three", "--board", "A41").err
    more = {"kind": "Fleet", "name": "more", "hosts": [host("three", ("T4", 1))]}
    cli.ok("sim", "add", "-f", cli.documents(more, name="more.yaml"))
    cli.ok("sim", "up", "-f", str(cli.folder / "fleet.yaml"))
    cli.ok("sim", "down")
    cli.ok("sim", "up")
    status = cli.ok("sim", "status", "-o", "json").json
    assert status["hosts"] == ["one", "two", "three"]
    cli.fails(2, "sim", "add")


def test_power_and_fencing_can_be_tried_without_hardware(cli: Cli) -> None:
    """As docs/power.md has it: a meter, a fence, and a host that is switched off by its BMC."""
    said = cli.ok("sim", "up", "--redfish", "0").err
    url = str(cli.ok("sim", "status", "-o", "json").json["redfish"])
    password = cli.state / "sim" / "redfish-password"
    assert f"Redfish at {url}, user sim, password in {password}" in said
    assert cli.ok("sim", "up", "--redfish", "0").err.count(url) == 1, "it is started once"
    cli.ok("secret", "set", "bmc", stdin=password.read_bytes())
    meter = {"url": url, "user": "sim", "secret": "bmc"}
    budget = {"kind": "PowerBudget", "name": "rack", "watts": 5000, "hosts": ["one"]}
    cli.ok("apply", "-f", cli.documents({**budget, "meter": meter}))
    with served(cli):
        until(lambda: shown(cli)["meter"] == "", "the meter to be read")
        assert shown(cli)["measured_watts"] > 300
    program = [sys.executable, "-m", "vgpumgr.redfish"]
    login = [url, "--user", "sim", "--password-file", "{secret}", "--system", "one"]
    off, status = (json.dumps([*program, verb, *login]) for verb in ("off", "status"))
    cli.ok("host", "fence", "one", "--off", off, "--status", status, "--secret", "bmc")
    assert "'Power is on': not off" in cli.ok("host", "fence", "one", "--check").err
    typed = [sys.executable, "-m", "vgpumgr.redfish", "off", *login]
    subprocess.run([str(password) if each == "{secret}" else each for each in typed], check=True)
    assert "one is off" in cli.ok("sim", "power", "one", "status").out
    assert "'Power is off'" in cli.ok("host", "fence", "one", "--check").err
    cli.ok("host", "fence", "one", "--remove")
    cli.ok("sim", "power", "one", "on")


def shown(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.ok("power", "show", "rack", "-o", "json").json
    return found


@contextmanager
def served(cli: Cli) -> Iterator[None]:
    environ = {**os.environ, "VGPUMGR_TELEMETRY_INTERVAL": "1"}
    process = cli.process("serve", env=environ, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        finish(process)

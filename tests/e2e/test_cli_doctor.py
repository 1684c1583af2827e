"""``vgpumgr doctor HOST`` as a user types it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)))
        yield made


@pytest.fixture(autouse=True)
def _well(cli: Cli) -> Iterator[None]:
    yield
    for name in ("one", "two"):
        cli.ok("sim", "inject", name, "clear")


def test_a_table_of_checks_and_what_helps(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "setup", "nouveau")
    ran = cli.fails(7, "doctor", "one")
    lines = ran.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("BAD "))
    assert lines[at].split() == ["BAD", "nouveau", "it", "is", "loaded"]
    assert lines[at + 1].strip() == "next: vgpumgr sim inject one clear"
    assert lines[at + 2].strip().startswith("by hand: echo 'blacklist nouveau'")
    assert "one needs attention: 1 bad, 1 warn" in ran.err
    assert len([line for line in lines if not line.startswith(" ")]) == 19


def test_json_for_programs(cli: Cli) -> None:
    found = cli.ok("doctor", "two", "-o", "json").json
    assert (found["kind"], found["name"]) == ("Diagnosis", "two")
    [migration] = [each for each in found["items"] if each["mark"] != "ok"]
    assert (migration["check"], migration["mark"], migration["ok"]) == (
        "live migration",
        "warn",
        True,
    )
    assert migration["by_hand"]


def test_warnings_alone_are_no_failure(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "setup", "no-ntp")
    assert "warn clock" in cli.ok("doctor", "one").out


def test_without_a_host_the_same_checks_in_brief(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "setup", "restore-failed")
    ran = cli.fails(7, "doctor")
    bad = [line for line in ran.out.splitlines() if line.startswith("BAD")]
    assert len(bad) == 1
    assert "host one" in bad[0] and "the last run of vgpumgr-restore.service failed" in bad[0]
    assert "host two" in ran.out and "1 warning: vgpumgr doctor two" in ran.out


def test_a_host_that_cannot_be_reached(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "unreachable")
    assert cli.fails(6, "doctor", "one", "-o", "json").error["code"] == "host.unreachable"


def test_a_host_that_is_not_enrolled(cli: Cli) -> None:
    assert "did you mean" in cli.fails(3, "doctor", "ome").err.lower()

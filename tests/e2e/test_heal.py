"""``vgpumgr heal`` as a user types it: what it shows, asks and does, and its exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, sim_host, vm

FIELDS = {
    "name", "host", "gpu", "vm", "subject", "kind", "text", "by", "way", "remedy", "next",
}  # fmt: skip


@pytest.fixture
def cli() -> Iterator[Cli]:
    """Two hosts with a T4 each, and a VM on each."""
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)))
        web = vm("web", "T4-4Q", replicas=2, disks=[{"size": "1GiB"}], policy="breadth-first")
        found.ok("apply", "-f", found.documents(web))
        yield found


def broken(cli: Cli) -> None:
    """web-01 is off and starts with its host, web-02 has lost its definition."""
    with sim_host(cli, "one") as one, sim_host(cli, "two") as two:
        one.domains.destroy("web-01")
        one.domains.set_autostart("web-01", on=True)
        two.domains.destroy("web-02")
        two.domains.undefine("web-02")


def test_it_shows_first_and_does_it_when_told(cli: Cli) -> None:
    assert cli.ok("heal").out == "nothing to heal: 2 VMs on 2 hosts\n"
    broken(cli)
    shown = cli.fails(10, "heal")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["HOST", "VM", "KIND", "BY", "REMEDY"]
    assert [line.split()[:4] for line in lines[1::2]] == [
        ["one", "web-01", "definition", "heal"],
        ["one", "web-01", "power", "heal"],
        ["two", "web-02", "domain-missing", "heal"],
    ]
    assert "nothing was changed; to carry out these 3: vgpumgr heal --apply" in shown.err
    assert cli.fails(10, "heal").out == shown.out, "looking changed something"
    assert "no terminal to confirm at" in cli.fails(2, "heal", "--apply").err
    done = cli.ok("heal", "--apply", "-y")
    assert "2 of 2 done" in done.out
    assert cli.ok("drift").out == "no difference: 2 VMs on 2 hosts\n"
    assert cli.items("operation", "list")[0]["kind"] == "heal"
    assert cli.ok("heal", "--apply").out == "nothing to heal: 2 VMs on 2 hosts\n"


def test_some_of_it_is_chosen(cli: Cli) -> None:
    broken(cli)
    assert cli.fails(10, "heal", "one").out.count("web-02") == 0
    assert cli.fails(10, "heal", "--vm", "web-02").out.count("web-01") == 0
    cli.ok("heal", "--kind", "power", "--apply", "-y")
    assert {item["kind"] for item in cli.fails(10, "drift", "-o", "json").json["items"]} == {
        "definition",
        "domain-missing",
    }
    assert "did you mean" in cli.fails(3, "heal", "--vm", "web-0").err.lower()
    cli.fails(3, "heal", "onne")
    cli.fails(2, "heal", "--kind", "nonsense")


def test_programs_get_every_field(cli: Cli) -> None:
    broken(cli)
    ran = cli.fails(10, "heal", "-o", "json")
    assert ran.err == ""
    assert ran.json["kind"] == "HealList"
    assert all(set(item) == FIELDS for item in ran.json["items"])
    assert {item["by"] for item in ran.json["items"]} == {"heal"}
    done = cli.ok("heal", "--apply", "-y", "-o", "json").json
    assert (done["kind"], done["left"], done["errors"]) == ("Heal", [], [])
    assert {each["state"] for each in done["vms"]} == {"done"}


def test_what_only_you_can_do_is_named_and_left(cli: Cli) -> None:
    volume = f"web-01-{cli.items('vm', 'list')[0]['id'][:8]}-0.qcow2"
    with sim_host(cli, "one") as one:
        one.domains.destroy("web-01")
        one.storage.delete("default", volume)
    ran = cli.fails(10, "heal", "--apply", "-y")
    assert [line.split()[:4] for line in ran.out.splitlines()[1::3]] == [
        ["one", "web-01", "power", "you"],
        ["one", "web-01", "volume-missing", "you"],
    ]
    assert ran.out.count("    next: ") == 2


def test_a_host_that_does_not_answer_is_exit_7_and_nothing_is_done_to_it(cli: Cli) -> None:
    broken(cli)
    cli.ok("sim", "inject", "two", "unreachable")
    assert "not read  two  the host: cannot reach two" in cli.fails(7, "heal").out
    ran = cli.fails(7, "heal", "--apply", "-y")
    assert "1 of 1 done" in ran.out
    assert "web-02" not in ran.out
    cli.ok("sim", "inject", "two", "clear")
    cli.ok("heal", "--apply", "-y")
    cli.ok("drift")


def test_what_a_host_refuses_is_told_and_left(cli: Cli) -> None:
    broken(cli)
    cli.ok("sim", "inject", "two", "refuse", "domains.define", "EIO", "1")
    ran = cli.fails(7, "heal", "--apply", "-y")
    assert "1 thing could not be healed" in ran.err
    assert "domain-missing" in ran.out
    cli.ok("heal", "--apply", "-y")


def test_a_gpu_that_fell_off_the_bus_is_quarantined_and_lifted(cli: Cli) -> None:
    gpu = cli.items("gpu", "list")[0]
    cli.ok("sim", "inject", "one", "gpu", gpu["device"], "xid", "79")
    cli("heal", "--kind", "gpu-lost", "--apply", "-y")
    name = cli.items("gpu", "list", "--refresh")[0]["name"]
    assert "fell off the bus" in cli.fails(10, "heal", "--kind", "gpu-lost").out
    assert "--lift" in cli.fails(10, "heal", "--kind", "gpu-lost").out
    cli.fails(4, "heal", "--lift", name)
    cli.ok("sim", "inject", "one", "clear")
    cli.ok("heal", "--lift", name)
    cli.fails(4, "heal", "--lift", name)
    cli.fails(3, "heal", "--lift", "gpu-none")
    cli.fails(2, "heal", "--lift", name, "--apply")


def test_without_a_host_there_is_nothing_to_heal() -> None:
    with new_cli() as empty:
        assert "no host is enrolled" in empty.fails(3, "heal").err

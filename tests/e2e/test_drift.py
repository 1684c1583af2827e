"""``vgpumgr drift`` as a user types it: what it prints, in which formats, and its exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, sim_host, vm
from vgpumgr.model.host import HostRecord
from vgpumgr.sim.sim_client import SimHosts

FIELDS = {"name", "host", "gpu", "vm", "subject", "kind", "wanted", "found", "text", "next"}
FOREIGN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def cli() -> Iterator[Cli]:
    """Two hosts with a T4 each, and a VM on each."""
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)))
        web = vm("web", "T4-4Q", replicas=2, disks=[{"size": "1GiB"}], policy="breadth-first")
        found.ok("apply", "-f", found.documents(web))
        yield found


def foreign_mdev(cli: Cli) -> None:
    """Another fleet makes an mdev on host two."""
    hosts = SimHosts(cli.state / "sim", identity=lambda: ("another", 1))
    try:
        reached = hosts.open(HostRecord(name="two", address="sim://two"))
        gpu = reached.probe().gpus[0]
        reached.helper.call(
            "mdev_create",
            {
                "parent": gpu.device,
                "type": next(t.type_id for t in gpu.mdev_types if t.profile == "T4-4Q"),
                "uuid": FOREIGN,
                "claim": {"allocation": "theirs", "generation": 1, "vm": "theirs"},
            },
        )
    finally:
        hosts.close()


def test_no_drift_is_exit_0_and_says_what_was_compared(cli: Cli) -> None:
    assert cli.ok("drift").out == "no difference: 2 VMs on 2 hosts\n"
    assert cli.ok("drift", "one").out == "no difference: 1 VM on 1 host\n"
    assert cli.ok("drift", "-o", "json").json == {
        "apiVersion": "vgpumgr/v1",
        "kind": "DriftList",
        "items": [],
        "not_read": [],
        "hosts": 2,
        "vms": 2,
        "skipped": [],
        "rebooted": [],
    }


def test_every_change_by_hand_is_a_line_with_the_next_command(cli: Cli) -> None:
    with sim_host(cli, "one") as one, sim_host(cli, "two") as two:
        one.domains.destroy("web-01")
        one.domains.set_autostart("web-01", on=True)
        two.domains.destroy("web-02")
        two.domains.undefine("web-02")
        volume = f"web-02-{cli.items('vm', 'list')[1]['id'][:8]}-0.qcow2"
        two.storage.delete("default", volume)
    foreign_mdev(cli)
    ran = cli.fails(10, "drift")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["HOST", "VM", "KIND", "DIFFERENCE"]
    told = [(a.split(maxsplit=3), b.strip()) for a, b in zip(lines[1::2], lines[2::2], strict=True)]
    assert [(where, name, kind) for (where, name, kind, _), _ in told] == [
        ("one", "web-01", "definition"),
        ("one", "web-01", "power"),
        ("two", "-", "foreign"),
        ("two", "web-02", "domain-missing"),
        ("two", "web-02", "volume-missing"),
    ]
    assert told[1][0][3] == "domain web-01 is shutoff, should be running"
    assert told[1][1] == "next: vgpumgr vm start web-01"
    assert FOREIGN in told[2][0][3]
    assert all(advice.startswith("next: ") for _, advice in told)
    assert cli.fails(10, "drift").out == ran.out
    assert cli.fails(10, "drift", "--ignore-foreign").out.count("next:") == 4
    assert "foreign" not in cli.fails(10, "drift", "one").out


def test_programs_get_every_field(cli: Cli) -> None:
    with sim_host(cli, "one") as one:
        one.domains.destroy("web-01")
    ran = cli.fails(10, "drift", "-o", "json")
    assert ran.err == ""
    [item] = ran.json["items"]
    assert set(item) == FIELDS
    assert item["kind"] == "power"
    assert (item["wanted"], item["found"], item["vm"]) == ("running", "shutoff", "web-01")
    assert cli.fails(10, "drift", "-o", "name").out == "one/web-01/power/domain web-01\n"
    assert cli.fails(10, "drift", "-o", "csv").out.startswith("host,vm,kind,difference,gpu,")
    assert cli.fails(10, "drift", "--columns", "VM,FOUND").out.split() == [
        "VM", "FOUND", "web-01", "shutoff",
    ]  # fmt: skip


def test_a_host_that_does_not_answer_is_exit_7_and_no_difference(cli: Cli) -> None:
    with sim_host(cli, "one") as one:
        one.domains.destroy("web-01")
    cli.ok("sim", "inject", "two", "unreachable")
    ran = cli.fails(7, "drift")
    assert "domain web-01 is shutoff" in ran.out
    assert "not read  two  the host: cannot reach two" in ran.out
    assert "web-02" not in ran.out
    assert "1 host could not be read" not in ran.out
    ran = cli.fails(7, "drift", "-o", "json")
    assert [item["vm"] for item in ran.json["items"]] == ["web-01"]
    assert ran.json["not_read"] == [{"host": "two", "part": "", "why": "cannot reach two"}]
    assert ran.error["exit"] == 7


def test_the_advice_is_followed_and_nothing_differs_any_more(cli: Cli) -> None:
    with sim_host(cli, "two") as two:
        two.domains.destroy("web-02")
        two.domains.undefine("web-02")
    advice = cli.fails(10, "drift").out.splitlines()[2].strip().removeprefix("next: vgpumgr ")
    cli.ok(*advice.split("   ")[0].split())
    cli.ok("drift")


def test_a_host_that_rebooted_is_told_aside(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "reboot")
    ran = cli("drift")
    assert "one has booted since its last observation" in ran.err


def test_what_is_asked_wrongly_is_refused(cli: Cli) -> None:
    assert "did you mean" in cli.fails(3, "drift", "onne").err.lower()


def test_without_a_host_there_is_nothing_to_compare() -> None:
    with new_cli() as empty:
        assert "no host is enrolled" in empty.fails(3, "drift").err

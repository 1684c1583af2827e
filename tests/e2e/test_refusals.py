"""A GPU or host that refuses is not the end: VMs go elsewhere, and the refusal counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, new_cli, pool
from tests.e2e.support import vm as any_vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        images = ["cad@1.qcow2"]
        made.sim_up(host("f", ("T4", 2), images=images), host("g", ("T4", 1), images=images))
        yield made


def vm(name: str, profile: str, **more: Any) -> dict[str, Any]:
    """One that goes to f first, as long as there is room."""
    return any_vm(name, profile, policy="breadth-first", **more)


def refusing(cli: Cli, name: str = "f", verb: str = "mdev_create", number: str = "EIO") -> None:
    cli.ok("sim", "inject", name, "refuse", verb, number, "1000")


def places(cli: Cli) -> dict[str, str]:
    """The host of every VM that runs."""
    return {e["name"]: e["host"] for e in cli.items("vm", "list") if e["state"] == "active"}


def gpus(cli: Cli, name: str) -> list[dict[str, Any]]:
    return [each for each in cli.items("gpu", "list") if each["host"] == name]


def apply_one(cli: Cli, name: str, **more: Any) -> None:
    cli.ok("apply", "-f", cli.documents(vm(name, "T4-4Q", **more), name=f"{name}.yaml"))


def test_a_vm_beside_refusing_gpus_is_made_elsewhere_in_the_same_operation(cli: Cli) -> None:
    refusing(cli)
    for name in ("one", "two", "three"):
        ran = cli("apply", "-f", cli.documents(vm(name, "T4-4Q"), name=f"{name}.yaml"))
        assert ran.code == 0, f"{name} was not made on g: {ran.err}"
    assert places(cli) == {"one": "g", "two": "g", "three": "g"}
    applied = [each for each in cli.items("operation", "list") if each["kind"] == "apply"]
    assert [each["state"] for each in applied] == ["done"] * 3, "each in one operation"
    assert cli.ok("drift").code == 0
    told = cli.ok("audit", "list", "--event", "gpu.refused", "-o", "json").json["items"]
    assert {(each["host"], each["vm"]) for each in told} == {("f", "one")}, "then f was left alone"


def test_explain_says_that_a_host_in_back_off_is_the_last_choice(cli: Cli) -> None:
    refusing(cli)
    apply_one(cli, "one")
    whole = cli.documents(vm("two", "T4-16Q"), name="two.yaml")
    assert "two: fits: would go to f, the last choice: see below" in cli("explain", "-f", whole).out
    small = cli.documents(vm("three", "T4-4Q"), name="three.yaml")
    assert "three: fits: would go to g\n" in cli("explain", "-f", small).out


def test_a_waiting_vm_starts_elsewhere_and_where_nobody_takes_it_says_who_refused(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("full", "T4-16Q", affinity={"hosts": ["g"]})))
    whole = cli.documents(*(vm(f"f{n}", "T4-16Q") for n in (1, 2)), name="whole.yaml")
    cli.ok("apply", "-f", whole)
    apply_one(cli, "late", queue=True)
    refusing(cli)
    cli.ok("vm", "delete", "f1", "f2", "--force", "-y")
    cli.ok("vm", "delete", "full", "--force", "-y")
    cli("serve", "--once")
    assert places(cli) == {"late": "g"}, "f refuses, and g has room"
    refusing(cli, "g")
    later = cli.documents(vm("later", "T4-4Q", queue=True), name="later.yaml")
    told = cli.fails(1, "apply", "-f", later).err
    assert "3 places refused" in told
    assert "1 VM waits in the queue: vgpumgr queue list" in told
    cli("serve", "--once")
    [entry] = [each for each in cli.items("queue", "list") if each["name"] == "later"]
    assert entry["state"] == "waiting" and places(cli) == {"late": "g"}
    assert "refused" in entry["why"], entry["why"]


def test_a_pools_spares_are_made_elsewhere_and_what_refuses_is_not_counted(cli: Cli) -> None:
    asked = pool(spare=3, max=4, policy="breadth-first")
    refusing(cli)
    cli.ok("apply", "-f", cli.documents(asked, name="pool.yaml"))
    for _ in range(3):
        cli("serve", "--once")
    assert sorted(places(cli).values()) == ["g"] * 3, cli.ok("pool", "show", "cad").out
    explained = cli.ok("pool", "explain", "cad", "-o", "json").json
    assert explained["counts"]["startable"] == 1, "g has room for one more; both GPUs of f refuse"


def test_after_three_refusals_a_gpu_is_quarantined_with_evidence_until_it_is_lifted(
    cli: Cli,
) -> None:
    refusing(cli)
    only = {"affinity": {"hosts": ["f"]}}
    for name in ("one", "two", "three"):
        refused = cli.fails(1, "apply", "-f", cli.documents(vm(name, "T4-4Q", **only)))
        assert "2 places refused" in refused.err
        assert "0000:41:00.0" in refused.err and "0000:43:00.0" in refused.err
    first, second = gpus(cli, "f")
    assert (first["state"], second["state"]) == ("quarantined", "quarantined")
    assert "it refused 3 times, last to create T4-4Q (EIO" in first["state_why"]
    assert "Refused" in cli.ok("gpu", "show", first["name"]).out
    assert "quarantined: it refused 3 times" in cli.ok("map").out
    assert "is quarantined" in cli.fails(10, "drift").out
    assert cli.ok("audit", "list", "--event", "gpu.quarantined").rows
    nowhere = cli.fails(5, "apply", "-f", cli.documents(vm("four", "T4-4Q", **only)))
    assert "quarantined" in nowhere.err
    cli.ok("sim", "inject", "f", "clear")
    cli.ok("heal", "--lift", f"f/{first['device']}")
    apply_one(cli, "four", **only)
    [first, second] = gpus(cli, "f")
    assert (first["state"], first["refusals"]) == ("healthy", [])
    assert second["state"] == "quarantined" and cli.fails(10, "drift").code == 10


def test_a_host_that_starts_nothing_is_cordoned_once_others_took_three_vms(cli: Cli) -> None:
    refusing(cli, "f", "domains.start", "EIO")
    one = cli.documents(vm("one", "T4-4Q"), name="one.yaml")
    assert "trying g" in cli.ok("apply", "-f", one).err
    assert host_states(cli) == {"f": "back-off", "g": "ready"}
    for name in ("two", "three"):
        first = {"affinity": {"hosts": ["f"]}}
        cli.fails(1, "apply", "-f", cli.documents(vm(name, "T4-4Q", **first)))
        assert host_states(cli)["f"] == "back-off", "nobody took it: it may be at fault itself"
    assert places(cli) == {"one": "g"}


def test_a_vm_that_every_host_refuses_is_held_against_none(cli: Cli) -> None:
    for name in ("f", "g"):
        refusing(cli, name, "domains.start", "EIO")
    for name in ("one", "two", "three"):
        bad = cli.documents(vm(name, "T4-4Q"), name="bad.yaml")
        assert "2 places refused" in cli.fails(1, "apply", "-f", bad).err
    assert host_states(cli) == {"f": "ready", "g": "ready"}


def host_states(cli: Cli) -> dict[str, str]:
    return {each["name"]: each["state"] for each in cli.items("host", "list")}


@pytest.mark.parametrize("number", ["ENOSPC", "EEXIST", "EINVAL"])
def test_what_may_be_the_requests_own_fault_counts_against_nobody(cli: Cli, number: str) -> None:
    refusing(cli, number=number)
    for name in ("one", "two", "three"):
        apply_one(cli, name)
    assert places(cli) == {"one": "g", "two": "g", "three": "g"}
    assert {(e["state"], e["back_off_s"]) for e in gpus(cli, "f")} == {("healthy", 0.0)}

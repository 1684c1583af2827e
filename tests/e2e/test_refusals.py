"""A GPU or host that refuses is not the end: VMs go elsewhere, and the refusal counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, new_cli, vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("f", ("T4", 2)), host("g", ("T4", 1)))
        yield made


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

"""`vgpumgr quota`, and what a tenant meets that would hold more than it may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, names, new_cli, vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)))
        yield made


def test_a_tenant_is_held_to_its_quota_and_told_what_to_type(cli: Cli) -> None:
    two = cli.documents(*(vm(f"r{n}", "T4-4Q", tenant="render") for n in (1, 2)), name="two.yaml")
    cli.ok("quota", "set", "render", "--gpu-memory", "6GiB", "--profile", "GRID T4-4Q=5")
    planned = cli.fails(5, "plan", "-f", two)
    line = "tenant render: GPU memory: 4 GiB of 6 GiB used, 4 GiB asked"
    assert line in planned.out
    refused = cli.fails(5, "apply", "-f", two, "-o", "json").error
    assert (refused["code"], refused["why"]) == ("quota-exceeded", line)
    assert "vgpumgr quota set render --gpu-memory 8GiB" in refused["next"]
    assert cli.items("vm", "list") == []

    cli.ok("quota", "set", "render", "--gpu-memory", "8GiB")
    cli.ok("apply", "-f", two)
    [row] = cli.ok("quota", "list").rows
    assert " ".join(row) == "render 8 GiB of 8 GiB 2 2 2 0 T4-4Q 2 of 5"
    grown = cli.documents(vm("r1", "T4-4Q", tenant="render") | {"vcpus": 4}, name="grown.yaml")
    cli.ok("quota", "set", "render", "--vcpus", "3")
    assert "vCPUs: 2 of 3 used, 3 asked" in cli.fails(5, "apply", "-f", grown, "--restart").err
    cli.ok("quota", "set", "render", "--vcpus", "none")
    cli.ok("apply", "-f", grown, "--restart")
    cli.ok("quota", "delete", "render")
    assert [each["limits"]["gpu_memory_mib"] for each in cli.items("quota", "list")] == [None]
    assert "no quota" in cli.fails(3, "quota", "delete", "render").err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("Render", "--vms", "1"), "small letters"),
        (("render", "--gpu-memory", "96"), "96GiB"),
        (("render", "--vms", "-1"), "0 or more"),
        (("render", "--profile", "T4-4Q"), "PROFILE=COUNT"),
        (("render", "--profile", "T4-4X=3"), "T4-4Q"),
        (("render", "--reserve", "nope=none"), "unknown profile"),
        (("render",), "no limit is named"),
    ],
)
def test_what_is_no_quota_is_refused(cli: Cli, words: tuple[str, ...], why: str) -> None:
    assert why.replace("96GiB", "like") in cli.fails(2, "quota", "set", *words).err
    assert names(cli.items("quota", "list")) == []

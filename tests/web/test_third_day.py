"""What an operator does now and then, with the browser alone; docs/web.md tells the clicks."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.support import Cli, until, vm
from tests.web.test_first_day import assert_told
from tests.web.visitor import Visitor
from tests.web.walk import Walk

pytestmark = pytest.mark.thorough


@pytest.fixture
def walk(operator: Visitor) -> Walk:
    operator.go("/")
    return Walk(operator.page, "third-day")


def test_a_vm_gets_another_name_and_a_clone(walk: Walk, cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("old-name")))
    with walk.task("rename a VM that runs"):
        walk.menu("VMs")
        walk.link("old-name")
        walk.button("Rename")
        walk.fill(New_name="new-name")
        walk.tick("Stop it if it runs")
        walk.button("Rename")
        walk.sees("done")
    until(
        lambda: cli.ok("vm", "show", "new-name", "-o", "json").json["power"] == "running",
        "the look at the host after the operation",
    )
    with walk.task("clone a VM, which must be off"):
        walk.menu("VMs")
        walk.link("new-name")
        walk.button("Stop")
        walk.tick("By cutting the power")
        walk.button("Stop")
        walk.sees("done")
        walk.link("new-name")
        walk.button("Clone")
        walk.fill(Name_of_the_new_VM="its-clone")
        walk.button("Clone")
        walk.sees("done")
    assert cli.ok("vm", "show", "its-clone", "-o", "json").json["gpus"] == []
    cli.ok("vm", "delete", "new-name", "its-clone", "-y", "--force")
    assert_told(walk)


def test_a_vm_gets_another_size(walk: Walk, cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("sized", "T4-4Q")))
    walk.menu("VMs")
    walk.link("sized")
    walk.link("Change")
    text = walk.page.get_by_label("Text").input_value()
    walk.button("Show the plan")
    walk.sees("0 changes; 1 VM as declared")
    with walk.task("give a VM another size"):
        walk.menu("VMs")
        walk.link("sized")
        walk.link("Change")
        walk.fill(Text=text.replace("1GiB", "2GiB"))
        walk.button("Show the plan")
        walk.sees("memory: 1GiB → 2GiB")
        walk.tick("Restart VMs")
        walk.button("Apply")
        expect(walk.page.get_by_role("heading", name="Apply done")).to_be_visible()
    assert cli.ok("vm", "show", "sized", "-o", "json").json["memory_mib"] == 2048
    cli.ok("vm", "delete", "sized", "-y", "--force")
    assert_told(walk)


def test_a_pool_is_made_of_a_draft(walk: Walk, cli: Cli) -> None:
    with walk.task("make a pool of desktops"):
        walk.menu("Pools")
        walk.link("New pool")
        walk.button("Show the plan")
        walk.sees("desktops")
        walk.button("Apply")
        walk.menu("Pools")
        walk.link("desktops")
        walk.sees("GROUP")
    cli("pool", "delete", "desktops", "-y")
    assert_told(walk)


def test_a_gpu_is_reset(walk: Walk, cli: Cli) -> None:
    with walk.task("reset a GPU"):
        walk.menu("GPUs")
        walk.first(walk.row("A100"))
        walk.button("Reset")
        walk.button("Reset")
        walk.sees("done")
    assert cli.items("operation", "list")[0]["kind"] == "gpu reset"
    assert_told(walk)


def test_a_flavour_is_set_and_deleted(walk: Walk, cli: Cli) -> None:
    with walk.task("set a flavour"):
        walk.menu("VMs")
        walk.link("Flavours")
        walk.button("Set flavours")
        walk.type("Flavours, as YAML", FLAVOUR.replace("vcpus", "vcpu"))
        walk.button("Show again")
        walk.sees("the text:4")
        walk.type("Flavours, as YAML", FLAVOUR)
        walk.button("Show again")
        walk.button("Set them")
        walk.sees("done")
    with walk.task("delete a flavour"):
        walk.menu("VMs")
        walk.link("Flavours")
        walk.button("Delete", walk.row("tiny"))
        walk.button("Delete")
        walk.sees("done")
    assert "tiny" not in [each["name"] for each in cli.items("flavour", "list")]
    assert_told(walk)


def test_drained_hosts_take_vms_again(walk: Walk, cli: Cli) -> None:
    for each in ("h2", "h3"):
        cli("host", "drain", each)  # VMs may have to stay
    assert sum(each["draining"] for each in cli.items("host", "list")) == 2
    with walk.task("undrain several hosts"):
        walk.menu("Hosts")
        walk.tick("Choose h2")
        walk.tick("Choose h3")
        walk.button("Undrain")
        walk.button("Undrain")
        walk.sees("done")
    assert not any(each["draining"] for each in cli.items("host", "list"))
    assert_told(walk)


def test_what_gpu_time_cost(walk: Walk) -> None:
    with walk.task("set the prices, and read what was used"):
        walk.menu("Cost")
        walk.sees("is not known")
        walk.link("Prices")
        walk.button("Set prices")
        walk.button("Set them")
        walk.link("Go on")
        walk.sees("EUR")
        walk.link("What GPU time cost")
        expect(walk.row("All")).to_contain_text(re.compile(r"\d\.\d\d$"))
        walk.link("VMs")
        expect(walk.row("desk-a")).to_contain_text("T4")
    assert_told(walk)


def test_hosts_are_fenced_and_looked_after(walk: Walk, cli: Cli) -> None:
    with walk.task("set a host's fence programs, and try them"):
        walk.menu("Hosts")
        walk.link("h3")
        walk.button("Fence programs")
        walk.fill(What_switches_it_off="/bin/false", What_says_whether_it_is_off="/bin/echo\nOFF")
        walk.button("Set them")
        walk.link("Go on")
        walk.button("Is it off?")
        walk.button("Run it")
        walk.sees("h3 is")
    with walk.task("see whether a host is too full"):
        walk.menu("Hosts")
        walk.link("Balance")
        walk.sees("No VM would move")
    with walk.task("see what is to be done about GPUs"):
        walk.menu("GPUs")
        walk.link("Health")
        walk.sees("take no VMs")
    cli.ok("host", "fence", "h3", "--remove")
    assert_told(walk)


FLAVOUR = """\
apiVersion: vgpumgr/v1
kind: Flavour
name: tiny
vcpus: 1
memory: 1GiB
"""

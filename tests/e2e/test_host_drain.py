"""``vgpumgr host drain``, ``maintenance``, ``fence`` and ``evacuate`` as a user types them."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.e2e.support import Cli, host, names, new_cli, sim_host, vm
from vgpumgr.model.domain import DomainState

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
NAS = {"pools": ["default", "nas"], "shared_pools": ["nas"]}
DISK = [{"size": "1GiB", "pool": "nas"}]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cli]:
    """Three hosts alike, which share a storage pool."""
    with new_cli() as found:
        found.sim_up(
            *(host(f"h{n}", ("T4", 2), versions=NEW, **NAS) for n in (1, 2, 3)),
        )
        for n in (1, 2, 3):
            found.ok("host", "migration", f"h{n}", "--address", f"h{n}")
        yield found


@pytest.fixture
def cli(fleet: Cli) -> Iterator[Cli]:
    """No VM and no fence block is left behind, and every host is on and open."""
    yield fleet
    fleet.ok("host", "fence", "h1", "--remove")
    for name in ("h1", "h2", "h3"):
        fleet("sim", "inject", name, "clear")
        fleet("sim", "inject", name, "on")
        if fleet.ok("host", "show", name, "-o", "json").json["maintenance"]:
            fleet.ok("host", "maintenance", name, "--off")
        fleet.ok("host", "uncordon", name)
    left = names(fleet.items("vm", "list"))
    if left:
        fleet.ok("vm", "delete", *left, "--force", "-y")


def make(cli: Cli, *documents: dict[str, object]) -> None:
    """On h1."""
    cli.ok("host", "cordon", "h2", "h3")
    cli.ok("apply", "-f", cli.documents(*documents))
    cli.ok("host", "uncordon", "h2", "h3")


def where(cli: Cli) -> dict[str, str]:
    return {each["name"]: each["host"] for each in cli.items("vm", "list")}


def fenced(cli: Cli, name: str) -> None:
    """By the power switch of the simulated host."""
    base = [sys.executable, "-m", "vgpumgr", "--state-dir", str(cli.state), "sim", "power", name]
    options = [f"--{key}={json.dumps([*base, key])}" for key in ("off", "status")]
    ran = cli.ok("host", "fence", name, *options)
    assert f"{name}: is fenced with {sys.executable}" in ran.err


def state(cli: Cli, name: str) -> DomainState | None:
    with sim_host(cli, name) as found:
        domain = found.domains.look("desk")
    return domain.state if domain else None


def later(text: str) -> float:
    """Seconds from now until a time as JSON has it."""
    return datetime.fromisoformat(text).timestamp() - time.time()


def test_a_drained_host_goes_into_maintenance_and_comes_back(cli: Cli) -> None:
    make(cli, vm("a", "T4-8Q"), vm("b", "passthrough"), vm("c"))
    dry = cli.fails(7, "host", "drain", "h1", "--dry-run")
    assert "b  stays" in dry.out
    refused = cli.fails(4, "host", "maintenance", "h1")
    assert "not empty" in refused.err
    assert cli.ok("host", "show", "h1", "-o", "json").json["state"] == "ready"  # as it was
    cli.ok("host", "cordon", "h1")
    cli.fails(4, "host", "maintenance", "h1")
    assert cli.ok("host", "show", "h1", "-o", "json").json["state"] == "cordoned"
    assert "not a duration" in cli.fails(2, "host", "drain", "h1", "--logoff-within", "soon").err
    cli.ok("host", "uncordon", "h1")
    ran = cli.fails(7, "host", "drain", "h1", "--logoff-within", "4h")
    assert "h1: 2 VMs moved away" in ran.out
    assert "next: vgpumgr host drain h1 --cold" in ran.err
    assert where(cli)["b"] == "h1"
    shown = cli.ok("host", "show", "h1", "-o", "json").json
    assert shown["state"] == "draining" and later(shown["logoff_by"]) > 3000
    assert "Users must log off:  in 3h" in " ".join(cli.ok("host", "show", "h1").out.splitlines())
    done = cli.ok("host", "drain", "h1", "--cold", "-o", "json").json
    assert (done["kind"], [each["state"] for each in done["vms"]]) == ("Drain", ["done"])
    assert "h1" not in where(cli).values()
    cli.ok("host", "maintenance", "h1")
    cli.ok("sim", "inject", "h1", "off")
    cli.ok("drift")
    cli.fails(4, "host", "uncordon", "h1")
    assert cli("host", "maintenance", "h1", "--off").code in {6, 7}
    cli.ok("sim", "inject", "h1", "on")
    cli.ok("host", "maintenance", "h1", "--off")
    assert cli.ok("host", "show", "h1", "-o", "json").json["state"] == "ready"


def test_a_lost_host_is_fenced_and_evacuated(cli: Cli) -> None:
    fenced(cli, "h1")
    make(cli, vm("desk", "T4-8Q", disks=DISK, autostart=True), vm("own", disks=[{"size": "1GiB"}]))
    check = cli.ok("host", "fence", "h1", "--check")
    assert "not off" in check.err
    cli.ok("sim", "inject", "h1", "unreachable")
    asked = cli.fails(2, "host", "evacuate", "h1")
    assert "switch h1 off" in asked.err
    ran = cli.fails(7, "host", "evacuate", "h1", "-y")
    assert "own   stays" in ran.out
    assert "own disks" in ran.err
    assert where(cli)["own"] == "h1"
    new_home = where(cli)["desk"]
    assert (new_home != "h1", state(cli, new_home)) == (True, DomainState.RUNNING)
    item = cli.ok("host", "show", "h1", "-o", "json").json
    assert (item["state"], item["evacuated"]) == ("maintenance", True)
    assert cli.ok("sim", "power", "h1", "status").out.strip() == "h1 is off"
    [operation] = [e for e in cli.items("operation", "list") if e["kind"] == "host evacuate"]
    assert "its fence status says 'h1 is off'" in operation["summary"]
    cli.ok("sim", "inject", "h1", "clear")
    cli.ok("sim", "power", "h1", "on")
    assert state(cli, "h1") is DomainState.SHUTOFF
    cli.ok("host", "maintenance", "h1", "--off")
    assert state(cli, "h1") is None
    assert state(cli, new_home) is DomainState.RUNNING
    cli.ok("host", "fence", "h1", "--remove")


def test_without_a_fence_the_name_must_be_typed(cli: Cli) -> None:
    make(cli, vm("desk", "T4-8Q", disks=DISK))
    cli.ok("sim", "inject", "h1", "off")
    refused = cli.fails(8, "host", "evacuate", "h1", "-y")
    assert "h1 is not proven to be off" in refused.err
    assert "--confirm-off" in refused.err
    cli.fails(2, "host", "evacuate", "h1", "-y", "--confirm-off")
    cli.fails(2, "host", "evacuate", "h1", "-y", "--confirm-off", "h2")
    assert where(cli)["desk"] == "h1"
    cli.ok("host", "evacuate", "h1", "--confirm-off", "h1")
    assert where(cli)["desk"] != "h1"


def test_a_host_that_answers_is_not_evacuated(cli: Cli) -> None:
    make(cli, vm("desk", "T4-8Q", disks=DISK))
    refused = cli.fails(4, "host", "evacuate", "h1", "--confirm-off", "h1")
    assert "it is not off" in refused.err
    assert where(cli)["desk"] == "h1"


@pytest.mark.parametrize(
    ("off", "says"),
    [
        ('["ipmitool"]', "whole path"),
        ('["/usr/bin/ipmitool", "-P", "calvin"]', "holds a password"),
        ('["/sbin/fence_ipmilan", "--password=calvin"]', "holds a password"),
        ('["/usr/bin/curl", "https://root:calvin@bmc/off"]', "holds a password"),
        ("[]", "at least 1"),
        ("off", "not a JSON list"),
    ],
)
def test_a_bad_fence_block_is_refused(cli: Cli, off: str, says: str) -> None:
    ran = cli.fails(2, "host", "fence", "h1", "--off", off, "--status", '["/bin/true"]')
    assert says in ran.err and "calvin" not in ran.err, ran.err
    assert cli.ok("host", "show", "h1", "-o", "json").json["fence"] is None


def test_a_fence_block_comes_from_a_file_too(cli: Cli) -> None:
    block = {"off": ["/bin/off", "h 1"], "status": ["/bin/status"]}
    document = {"kind": "Host", "name": "h1", "address": "sim://h1", "fence": block}
    cli.ok("host", "fence", "h1", "-f", cli.documents(document))
    assert cli.ok("host", "show", "h1", "-o", "json").json["fence"] == {**block, "secret": ""}
    assert f"off: {shlex.join(block['off'])}" in cli.ok("host", "show", "h1").out
    cli.ok("host", "fence", "h1", "--remove")

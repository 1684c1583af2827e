"""``vgpumgr adopt`` as a user types it, on a host where somebody worked by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.support import Cli, host, host_dumps, new_cli, sim_host
from tests.unit.engine.foreign import MDEV, domain, mdev_hostdev
from vgpumgr.model.host import HostRecord
from vgpumgr.sim.sim_client import SimHosts

OTHER = "1dc2f94f-bb27-4186-a8b5-97c5e784fc0b"


@pytest.fixture
def cli() -> Iterator[Cli]:
    """A host with a T4: desk runs with an mdev made by hand, spare is off and has none."""
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)))
        made_by_hand(found)
        with sim_host(found, "one") as one:
            one.domains.define(domain("desk", mdev_hostdev(MDEV)))
            one.domains.start("desk")
            one.domains.define(domain("spare", uuid=OTHER))
        yield found


def made_by_hand(cli: Cli) -> None:
    """An mdev that nobody claims: made by a program that knew the helper, and forgot it."""
    hosts = SimHosts(cli.state / "sim", identity=lambda: ("script", 1))
    try:
        one = hosts.open(HostRecord(name="one", address="sim://one"))
        gpu = one.probe().gpus[0]
        kind = next(each.type_id for each in gpu.mdev_types if each.profile == "T4-4Q")
        claim = {"allocation": "a", "generation": 1, "vm": "script"}
        args = {"parent": gpu.device, "type": kind, "uuid": MDEV, "claim": claim}
        one.helper.call("mdev_create", args)
        one.helper.call("disown", {"unit": f"mdev-{MDEV}", "claim": claim})
    finally:
        hosts.close()


def test_it_lists_what_could_be_adopted_and_changes_nothing(cli: Cli) -> None:
    before = host_dumps(cli)
    ran = cli.ok("adopt")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["HOST", "DOMAIN", "POWER", "GPUS", "ADOPT"]
    assert lines[1].split() == ["one", "desk", "running", "T4-4Q", "on", "0000:41:00.0", "yes"]
    assert lines[2] == "    next: vgpumgr adopt one --vm desk --apply"
    assert lines[3].split()[:3] == ["one", "spare", "off"]
    assert cli.ok("adopt", "one").out == ran.out
    listed = cli.ok("adopt", "-o", "json").json
    assert listed["kind"] == "AdoptableList"
    assert [item["possible"] for item in listed["items"]] == [True, True]
    cli.ok("adopt", "one", "--vm", "desk")
    assert cli.items("vm", "list", "--refresh")[0]["owner"] == "foreign"
    assert host_dumps(cli) == before


def test_a_vm_is_adopted_and_its_own_file_changes_nothing(cli: Cli) -> None:
    document = cli.ok("adopt", "one", "-o", "json").json["items"][0]["vm"]
    assert "1 of 1 done" in cli.ok("adopt", "one", "--vm", "desk", "--apply").out
    found = next(item for item in cli.items("vm", "list") if item["name"] == "desk")
    assert (found["owner"], found["adopted"], found["power"]) == ("vgpumgr", True, "running")
    assert cli.ok("drift").out == "no difference: 1 VM on 1 host\n"
    file = cli.file(yaml.safe_dump(document))
    cli.ok("diff", "-f", file)
    assert "nothing to change" in cli.ok("apply", "-f", file).out
    assert "spare" in cli.ok("adopt").out
    # From then on it is one of ours.
    cli.ok("vm", "stop", "desk", "--force")
    cli.ok("vm", "start", "desk")
    cli.ok("vm", "delete", "desk", "--force", "-y")
    with sim_host(cli, "one") as one:
        facts = one.probe()
    assert ([each.name for each in facts.domains], facts.mdevs, facts.claims) == (
        ["spare"], (), (),
    )  # fmt: skip


def test_all_of_a_host_at_once(cli: Cli) -> None:
    assert "2 of 2 done" in cli.ok("adopt", "one", "--all", "--apply", "--tenant", "lab").out
    assert {item["tenant"] for item in cli.items("vm", "list")} == {"lab"}
    cli.ok("drift")
    assert cli.ok("adopt").out == "nothing to adopt\n"


def test_what_cannot_be_adopted_is_exit_4_and_says_why(cli: Cli) -> None:
    with sim_host(cli, "one") as one:
        one.domains.define(domain("twin", mdev_hostdev(MDEV), uuid=OTHER.replace("fc0b", "fc0c")))
    ran = cli.fails(4, "adopt", "one", "--vm", "twin")
    assert "is in domain desk as well" in ran.out
    before = host_dumps(cli)
    ran = cli.fails(4, "adopt", "one", "--vm", "twin", "--apply", "-o", "json")
    assert "is in domain desk as well" in ran.error["why"]
    assert host_dumps(cli) == before
    assert cli.items("vm", "list")[0]["owner"] == "foreign"


def test_an_adoption_that_a_host_refuses_leaves_all_as_it_was(cli: Cli) -> None:
    before = [{**each, "epoch": None} for each in host_dumps(cli)]
    cli.ok("sim", "inject", "one", "refuse", "domains.set_metadata", "EIO", "1")
    cli.fails(1, "adopt", "one", "--vm", "desk", "--apply")
    after = [{**each, "epoch": None} for each in host_dumps(cli)]
    assert after == before
    cli.ok("adopt", "one", "--vm", "desk", "--apply")


def test_what_is_asked_wrongly_is_refused(cli: Cli) -> None:
    cli.fails(2, "adopt", "--all", "--apply")
    cli.fails(2, "adopt", "one", "--apply")
    cli.fails(2, "adopt", "one", "--all", "--vm", "desk")
    cli.fails(3, "adopt", "one", "--vm", "nobody", "--apply")
    cli.fails(2, "adopt", "one", "--vm", "nobody")
    cli.fails(3, "adopt", "onne")


def test_a_host_that_does_not_answer_is_exit_7(cli: Cli) -> None:
    cli.ok("sim", "inject", "one", "unreachable")
    ran = cli.fails(7, "adopt")
    assert ran.out.startswith("not read  one")
    cli.fails(7, "adopt", "one", "--all", "--apply")


def test_a_host_that_is_not_partitioned_has_nothing_to_declare(cli: Cli) -> None:
    ran = cli.fails(3, "adopt", "one", "--layout", "--apply")
    assert "no GPU of one is partitioned without a layout" in ran.err

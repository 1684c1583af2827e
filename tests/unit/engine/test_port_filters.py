"""Rules on ports: a network filter of ours that is there with its VM, and gone with the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr import domainxml
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.model.domain import MigrationAddress, NicTuning
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.port_rules import PortFilter, PortRule
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import NicSpec

SSH = PortFilter(True, (PortRule.parse("tcp/22"), PortRule.parse("icmp")))
WEB = PortFilter(False, (PortRule.parse("tcp/8000-8080"), PortRule.parse("udp/53")))
SCHEMA = Path("/usr/share/libvirt/schemas/nwfilter.rng")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, *(host("T4", name=name, versions=NEW) for name in ("h1", "h2")))
    for name in ("h1", "h2"):
        record = made.ledger.host(name)
        made.ledger.update_host(replace(record, migration=MigrationAddress(address=name)))
    made.engine.refresh()
    yield made
    made.close()


def guest(name: str, wanted: PortFilter, on: str = "h1") -> VmSpec:
    nic = NicSpec(network="default", tuning=NicTuning(filter=wanted.name))
    found = vm(name, nics=(nic,))
    return replace(found, affinity=replace(found.affinity, hosts=(on,) if on else ()))


def own(world: SimWorld, name: str) -> list[str]:
    """The filters of ours there."""
    return [each for each in world.sim.host(name).filters() if PortFilter.named(each)]


def test_it_is_there_with_the_first_and_gone_with_the_last(world: SimWorld) -> None:
    world.apply(guest("a", SSH), guest("b", SSH), guest("c", WEB))
    assert sorted(own(world, "h1")) == sorted([SSH.name, WEB.name])
    assert survey(world.engine).drifts == ()
    world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    assert SSH.name in own(world, "h1")
    world.engine.delete(["b", "c"], keep_disks=False, force=True).raise_for_failure()
    assert own(world, "h1") == []
    assert "clean-traffic" in world.sim.host("h1").filters()


def test_another_set_of_rules_takes_its_place(world: SimWorld) -> None:
    world.apply(guest("a", SSH))
    world.engine.apply([guest("a", WEB)], restart=True)[1].raise_for_failure()
    assert own(world, "h1") == [WEB.name]


def test_nothing_is_left_of_a_vm_that_does_not_start(world: SimWorld) -> None:
    world.sim.inject("h1", ["refuse", "domains.start", "EIO", "9"])
    with pytest.raises(VgpumgrError):
        world.apply(guest("a", SSH))
    assert own(world, "h1") == []


@pytest.mark.parametrize("cold", [False, True])
def test_it_goes_with_a_vm_that_moves(world: SimWorld, cold: bool) -> None:
    world.apply(replace(guest("a", SSH), affinity=replace(vm("x").affinity)))
    here = world.ledger.vm("a").host
    there = "h2" if here == "h1" else "h1"
    world.engine.migrate("a", there, cold=cold).raise_for_failure()
    assert (own(world, here), own(world, there)) == ([], [SSH.name])


def test_a_name_says_what_is_in_it() -> None:
    assert SSH.name == "vgpumgr.clean.icmp.tcp-22"
    assert WEB.name == "vgpumgr.any.tcp-8000-8080.udp-53"
    for each in (SSH, WEB, PortFilter(True, ())):
        again = PortFilter.named(each.name)
        assert again is not None and again.name == each.name
    for foreign in ("clean-traffic", "vgpumgr.x.tcp-22", "vgpumgr.any.tcp-0", "vgpumgr.clean.all"):
        assert PortFilter.named(foreign) is None


@pytest.mark.parametrize("text", ["tcp", "tcp/0", "tcp/70000", "udp/9-3", "sctp/1", "tcp/1,2", ""])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        PortRule.parse(text)


def test_its_xml_lets_in_what_is_allowed_and_nothing_else() -> None:
    root = etree.fromstring(domainxml.port_filter(SSH))
    assert root.get("name") == SSH.name
    assert [each.get("filter") for each in root.iterfind("filterref")] == ["clean-traffic"]
    opened = {
        (rule[0].tag, rule[0].get("dstportstart"))
        for rule in root.iterfind("rule[@direction='in']")
        if rule.get("action") == "accept" and not rule[0].get("srcportstart")
    }
    assert opened == {("tcp", "22"), ("tcp-ipv6", "22"), ("icmp", None)}
    dropped = [rule[0].tag for rule in root.iterfind("rule[@action='drop']")]
    assert dropped == ["all", "all-ipv6"]
    if SCHEMA.exists():
        schema = etree.RelaxNG(etree.parse(SCHEMA))
        for each in (SSH, WEB, PortFilter(True, ())):
            schema.assertValid(etree.fromstring(domainxml.port_filter(each)))

"""Looking at real ledgers and hosts: what is not read, what works meanwhile, what was cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import look
from vgpumgr.engine.drift.host_comparison import operations_in_progress
from vgpumgr.model.drift import DriftKind as Kind
from vgpumgr.model.errors import HostUnreachable
from vgpumgr.model.host import HostFacts
from vgpumgr.model.vm import Affinity
from vgpumgr.model.vm_devices import DiskSpec

DISKS = (DiskSpec(size_bytes=1 << 30),)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """Two hosts, one VM."""
    made = SimWorld(tmp_path, host("T4"), host("T4", name="h2"))
    made.apply(vm("web", "T4-4Q", disks=DISKS))
    yield made
    made.close()


def test_only_the_named_hosts_are_looked_at(world: SimWorld) -> None:
    world.sim.inject("h2", ["unreachable"])
    where = world.ledger.vm("web").host
    assert where == "h1"
    assert world.engine.drift(["h1"]).not_read == ()
    assert world.engine.drift(["h1"]).hosts == 1


def test_a_host_that_does_not_answer_differs_in_nothing(world: SimWorld) -> None:
    world.sim.inject("h1", ["unreachable"])
    found = world.engine.drift()
    assert found.drifts == ()
    assert [(each.host, each.part) for each in found.not_read] == [("h1", "")]
    assert (found.hosts, found.vms) == (1, 0)


@pytest.mark.parametrize(
    ("verb", "part"),
    [
        ("domains.xml", "the definition of web"),
        ("domains.live_xml", "the devices of web"),
        ("storage.look", "volume default/"),
    ],
)
def test_a_closer_look_that_fails_differs_in_nothing(world: SimWorld, verb: str, part: str) -> None:
    world.sim.inject("h1", ["refuse", verb, "EIO", "1"])
    found = world.engine.drift()
    assert found.drifts == ()
    assert len(found.not_read) == 1
    assert found.not_read[0].part.startswith(part)
    assert "Input/output error" in found.not_read[0].why


def test_libvirt_that_does_not_answer_is_not_read(world: SimWorld) -> None:
    world.sim.inject("h1", ["refuse", "domains.list", "EIO", "1"])
    found = world.engine.drift()
    assert found.drifts == ()
    assert [each.part for each in found.not_read] == ["libvirt"]


def test_a_creation_that_was_cut_is_named(world: SimWorld) -> None:
    mortal = Mortal(world.ledger, 4, after=True)
    with pytest.raises(Killed):
        replace(world.engine, ledger=mortal).apply([vm("cut", "T4-4Q")])  # type: ignore[arg-type]
    world.restart()
    [drift] = world.engine.drift().drifts
    assert drift.kind is Kind.UNFINISHED
    assert drift.vm == "cut"
    operation = world.ledger.operations(open_only=True)[0].id
    assert drift.next == f"vgpumgr operation resume {operation[:8]}"
    world.engine.resume(operation).raise_for_failure()
    assert world.engine.drift().drifts == ()


def test_an_operation_that_ended_during_the_look_explains_what_was_seen(world: SimWorld) -> None:
    vm_id, ended = world.ledger.vm("web").id, world.ledger.operations()[0].ended_at
    assert ended is not None
    assert operations_in_progress(world.ledger, ended - 1, ()).touched == {vm_id}
    assert operations_in_progress(world.ledger, ended, ()).touched == frozenset()


def test_a_host_that_goes_away_is_asked_no_more(world: SimWorld) -> None:
    """Each question may wait for its deadline."""
    world.apply(vm("more", "T4-4Q", disks=DISKS, affinity=Affinity(hosts=("h1",))))
    reached = world.hosts.open(world.ledger.host("h1"))
    facts = reached.probe()
    asked: list[str] = []

    def gone(name: str) -> str:
        asked.append(name)
        raise HostUnreachable("h1 does not answer")

    domains = SimpleNamespace(xml=gone, live_xml=gone)
    storage = SimpleNamespace(look=lambda pool, name: gone(name))
    host = SimpleNamespace(name="h1", domains=domains, storage=storage)
    seen = look(host, facts, world.ledger.vms())  # type: ignore[arg-type]
    assert asked == ["more"]
    assert [each.why for each in seen.not_read] == ["h1 does not answer"] * 4
    assert (seen.definitions, seen.volumes) == ({}, {})


def test_a_reboot_is_told_and_is_no_drift_by_itself(world: SimWorld) -> None:
    world.sim.inject("h2", ["reboot"])
    found = world.engine.drift()
    assert (found.rebooted, found.drifts) == (("h2",), ())
    assert world.engine.drift().rebooted == ()


def test_evidence_that_conflicts_is_named_and_stops_the_rest(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board at an address is another one: its UUID is one that h2's has."""
    theirs = world.facts("h2").gpus[0]
    reached = type(world.hosts.open(world.ledger.host("h1")))
    probe = reached.probe

    def swapped(self: object) -> HostFacts:
        facts = probe(self)  # type: ignore[arg-type]
        if facts.host != "h1":
            return facts
        return replace(facts, gpus=(replace(facts.gpus[0], uuid=theirs.uuid),))

    monkeypatch.setattr(reached, "probe", swapped)
    found = world.engine.drift(["h1"])
    [drift] = found.drifts
    assert drift.kind is Kind.GPU_EVIDENCE
    assert "nothing else of this host was compared" in drift.text
    assert drift.next
    assert found.hosts == 0


def test_looking_changes_nothing_on_the_hosts(world: SimWorld) -> None:
    world.hosts.open(world.ledger.host("h1")).domains.destroy("web")

    def everything() -> object:
        ledger = world.ledger
        return world.facts("h1"), world.facts("h2"), ledger.vms(), ledger.allocations()

    before = everything()
    assert world.engine.drift().drifts
    assert everything() == before

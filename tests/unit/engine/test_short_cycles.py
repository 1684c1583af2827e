"""A host that shows what it showed costs a probe, and any news makes its cycle a whole one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.serving import INTERVAL_S, Served, serving
from tests.world import World, vm
from vgpumgr.engine.controller import host_cycle
from vgpumgr.engine.controller.cycle_context import ChangedHosts
from vgpumgr.engine.controller.host_cycle import WHOLE_S
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.history import TrailChanges
from vgpumgr.model.host import UnknownPart
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.vm import Affinity, VmSpec

STRAY = VolumeFacts(
    pool="default", name="stray", path="/pools/stray", capacity_bytes=1, format="raw"
)


def on(host: str, name: str) -> VmSpec:
    return replace(vm(name, "T4-4Q"), affinity=Affinity(hosts=(host,)))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, FakeHost("h1"), FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]))
    made.engine.apply([on("h1", "a")])
    yield made
    made.close()


@pytest.fixture
def served(world: World) -> Served:
    made = serving(world)
    made.serve(3 * INTERVAL_S)
    assert made.kinds() == []
    return made


def is_whole(world: World, served: Served, host: str = "h1") -> bool:
    """Does the next cycle read definitions and devices of its domains, too?"""
    world.hosts[host].calls.clear()
    served.serve(INTERVAL_S)
    calls = [name for name, _ in world.hosts[host].calls]
    assert "probe" in calls
    return "live_xml" in calls


def test_a_host_without_news_is_probed_and_seen_and_nothing_else(
    world: World, served: Served
) -> None:
    before, seen = world.ledger.audit(), world.ledger.host("h1").observed_at
    assert not is_whole(world, served)
    assert world.ledger.audit() == before
    now = world.ledger.host("h1").observed_at
    assert seen is not None
    assert now is not None
    assert now >= seen + INTERVAL_S * 0.7
    assert [each.state for each in served.status.hosts] == ["ok", "ok"]


NEWS: dict[str, Callable[[World], object]] = {
    "its definition": lambda world: world.hosts["h1"].xml_by_name.update(
        a=world.hosts["h1"].xml_by_name["a"].replace("<vcpu", "<!-- by hand --><vcpu")
    ),
    "its volumes": lambda world: world.hosts["h1"].volumes.update({("default", "stray"): STRAY}),
    "a part that was not read": lambda world: setattr(
        world.hosts["h1"], "unknown", (UnknownPart(part="nvml", why="busy"),)
    ),
    "an operator's mark": lambda world: world.ledger.update_host(
        replace(world.ledger.host("h1"), cordoned=True)
    ),
    "quarantine": lambda world: world.ledger.quarantine(world.ledger.gpus("h1")[0].id, "fans"),
    "an operation": lambda world: world.engine.reboot(["a"], force=True),
    "another's look": lambda world: world.engine.refresh(["h1"]),
    "the whole fleet's epoch": lambda world: world.ledger.raise_epoch(),
}


@pytest.mark.parametrize("news", NEWS)
def test_news_of_the_host_or_of_the_ledger_make_the_cycle_whole(
    world: World, served: Served, news: str
) -> None:
    assert not is_whole(world, served)
    NEWS[news](world)
    world.hosts["h1"].calls.clear()
    # Another's look is noticed when ours is written, so that the cycle after it is whole.
    served.serve(2 * INTERVAL_S)
    assert "probe" in [name for name, _ in world.hosts["h1"].calls]
    read = {"live_xml", "xml"} & {name for name, _ in world.hosts["h1"].calls}
    assert read, news


def test_news_of_one_host_are_no_news_of_another(world: World, served: Served) -> None:
    world.engine.apply([on("h2", "b")])
    served.serve(3 * INTERVAL_S)
    world.engine.stop_vms(["b"], force=True, timeout_s=1)
    assert not is_whole(world, served)


def test_guest_agents_are_asked_in_short_cycles_too(
    world: World, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(host_cycle, "ask_guest_agents", lambda turn: asked.append(turn.host))
    assert not is_whole(world, served)
    assert asked == []
    world.engine.apply([replace(on("h1", "b"), agent=True)])
    served.serve(3 * INTERVAL_S)
    asked.clear()
    assert not is_whole(world, served)
    assert asked == ["h1"]


@pytest.mark.thorough
def test_after_a_while_a_cycle_is_whole_all_the_same(world: World, served: Served) -> None:
    served.serve(WHOLE_S)
    world.hosts["h1"].calls.clear()
    served.serve(WHOLE_S + INTERVAL_S)
    calls = [name for name, _ in world.hosts["h1"].calls]
    assert 1 <= calls.count("live_xml") <= 2
    assert calls.count("probe") >= 15


def test_an_operation_whose_worker_died_keeps_cycles_whole(world: World, served: Served) -> None:
    host = world.hosts["h1"]
    host.refuse("destroy", KeyboardInterrupt())  # type: ignore[arg-type]
    other = world.engine_over(world.open())
    with pytest.raises(KeyboardInterrupt):
        other.stop_vms(["a"], force=True, timeout_s=1)
    other.ledger.close()
    served.serve(3 * INTERVAL_S)
    assert world.ledger.operations(open_only=True) == ()


class Trail:
    """A trail of which records become visible late, as PostgreSQL's do."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []

    def trail_since(self, after: int | None) -> TrailChanges:
        end = max((seq for seq, _ in self.rows), default=0)
        rows = () if after is None else tuple(row for row in sorted(self.rows) if row[0] > after)
        return TrailChanges(end, rows)


@pytest.fixture
def trail() -> Trail:
    return Trail()


@pytest.fixture
def changed(trail: Trail) -> ChangedHosts:
    ledger: Ledger = trail  # type: ignore[assignment]
    return ChangedHosts(ledger, iter(range(1000)).__next__)


def test_a_record_that_becomes_visible_late_is_news(trail: Trail, changed: ChangedHosts) -> None:
    trail.rows.append((2, "h2"))
    changed.read()
    count = changed.count
    assert not changed.since("h1", count)
    trail.rows.append((1, "h1"))
    changed.read()
    assert changed.since("h1", count)
    assert not changed.since("h2", count)


def test_a_record_may_be_news_of_several_hosts(trail: Trail, changed: ChangedHosts) -> None:
    count = changed.count
    trail.rows += [(1, "h1"), (1, "h2")]
    changed.read()
    assert changed.since("h1", count)
    assert changed.since("h2", count)


def test_a_record_is_news_once(trail: Trail, changed: ChangedHosts) -> None:
    trail.rows.append((1, "h1"))
    for _ in range(400):  # longer than records are waited for
        changed.read()
    count = changed.count
    changed.read()
    assert not changed.since("h1", count)
    trail.rows.append((2, ""))
    changed.read()
    assert changed.since("h1", count)


def test_a_ledger_that_was_restored_is_news_for_every_host(
    trail: Trail, changed: ChangedHosts
) -> None:
    trail.rows += [(seq, "h1") for seq in range(1, 9)]
    changed.read()
    count = changed.count
    del trail.rows[4:]
    changed.read()
    assert changed.since("h2", count)

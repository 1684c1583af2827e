"""A ledger put back from an older copy: frozen before anything new, nothing given away twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import URL

from tests.checker.trail import replay
from tests.simworld import SimWorld, host, vm
from tests.unit.store import values
from vgpumgr.engine.inventory.rollback_detection import evidence
from vgpumgr.engine.ledger_recovery import ledger_thaw
from vgpumgr.helper import claims
from vgpumgr.model.domain import DomainFacts, DomainState, Ownership
from vgpumgr.model.errors import Conflict, Frozen, HostUnreachable, PartlyDone
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.ledger_state import Freeze, Remembered
from vgpumgr.model.vm import Affinity, VmSpec
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.store.schema import metadata

pytestmark = pytest.mark.thorough

SLICE = "T4-4Q"  # four of them fill a T4


BOTH = pytest.mark.parametrize("world", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimWorld]:
    on_server = getattr(request, "param", "sqlite") == "postgresql"
    url = request.getfixturevalue("pg").database() if on_server else ""
    made = SimWorld(tmp_path, host("T4", "T4"), host("T4", name="h2"), ledger=url)
    made.engine.refresh()
    yield made
    made.close()


def desk(name: str, **fields: object) -> VmSpec:
    return vm(name, SLICE, disks=(DiskSpec(size_bytes=1 << 20),), **fields)


def snapshot(world: SimWorld) -> Callable[[], None]:
    """Copies the ledger as it is; what it returns puts the copy in the place of a later one."""
    url: URL = world.ledger._database.engine.url
    copy = _rows(url)

    def put_back() -> None:
        world.ledger.close()
        _replace(url, copy)
        world.restart()

    return put_back


def _rows(url: URL) -> dict[str, list[dict[str, object]]]:
    engine = create_engine(url)
    with engine.begin() as connection:
        found = {
            table.name: [dict(row._mapping) for row in connection.execute(table.select())]
            for table in metadata.sorted_tables
        }
    engine.dispose()
    return found


def _replace(url: URL, rows: dict[str, list[dict[str, object]]]) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        for table in metadata.sorted_tables:
            if rows[table.name]:
                connection.execute(table.insert(), rows[table.name])
    engine.dispose()


def on_hosts(world: SimWorld) -> list[str]:
    """Every device in a domain of ours, once for each domain that names it."""
    names = [each.name for each in world.ledger.hosts()]
    return [
        device for name in names for each in world.facts(name).domains for device in each.devices
    ]


def memory_in_use(world: SimWorld) -> Counter[tuple[str, str]]:
    """mdevs by their parent, as the hosts show them."""
    names = [each.name for each in world.ledger.hosts()]
    return Counter((n, mdev.parent) for n in names for mdev in world.facts(n).mdevs)


def ledger_knows_the_hosts(world: SimWorld) -> bool:
    """Every claim has its allocation, every domain its VM, and nothing differs."""
    report = world.engine.drift()
    return not report.drifts and not report.not_read


@BOTH
def test_a_ledger_of_ten_minutes_ago_is_frozen_and_learns(world: SimWorld) -> None:
    """0 double allocations: what was made since is never given away again."""
    world.apply(desk("old"))
    put_back = snapshot(world)
    world.apply(desk("new-1"), desk("new-2"), vm("bare"))
    devices = sorted(on_hosts(world))
    put_back()

    for _ in range(2):
        with pytest.raises(Frozen) as caught:
            world.engine.apply([desk(f"late-{number}") for number in range(9)])
        assert "the ledger never had that" in caught.value.why
    assert [each.name for each in world.ledger.vms()] == ["old"]
    assert sorted(on_hosts(world)) == devices

    before = world.ledger.epoch()
    found = ledger_thaw.plan(world.engine)
    assert not found.conflicts
    assert world.ledger.frozen() is not None
    assert [each.name for each in world.ledger.vms()] == ["old"]

    ledger_thaw.thaw(world.engine)
    assert world.ledger.frozen() is None
    assert world.ledger.epoch() > before
    assert {each.name for each in world.ledger.vms()} == {"old", "new-1", "new-2", "bare"}
    assert ledger_knows_the_hosts(world)
    assert world.engine.plan([desk("new-1"), vm("bare")]).changes == 0

    room = sum(gpu.units for gpu in world.ledger.gpus()) // 4 - 3
    world.apply(*(desk(f"late-{number}") for number in range(room)))
    assert max(memory_in_use(world).values()) == 4
    assert len(set(on_hosts(world))) == len(on_hosts(world)) == room + 3
    assert ledger_knows_the_hosts(world)
    played = replay(asdict(each) for each in reversed(world.ledger.audit()))
    assert played.problems == []
    assert set(played.vms) == {each.name for each in world.ledger.vms()}


def test_what_it_learned_can_be_stopped_started_and_deleted(world: SimWorld) -> None:
    put_back = snapshot(world)
    world.apply(desk("new", autostart=True))
    put_back()
    world.engine.refresh()
    ledger_thaw.thaw(world.engine)
    world.engine.stop_vms(["new"], force=True, timeout_s=1).raise_for_failure()
    world.engine.start(["new"]).raise_for_failure()
    assert ledger_knows_the_hosts(world)
    where = world.ledger.vm("new").host
    [volume] = world.ledger.vm("new").volumes
    world.delete("new")
    facts = world.facts(where)
    assert (facts.domains, facts.claims, facts.mdevs) == ((), (), ())
    opened = world.hosts.open(world.ledger.host(where))
    assert opened.storage.look(*volume) is None


@BOTH
def test_a_vm_that_was_changed_or_moved_meanwhile_is_where_its_domain_is(world: SimWorld) -> None:
    world.apply(desk("moved"), desk("grown"))
    world.engine.stop_vms(["moved", "grown"], force=True, timeout_s=1)
    home = world.ledger.vm("moved").host
    put_back = snapshot(world)
    to = "h2" if home == "h1" else "h1"
    world.engine.migrate("moved", to, cold=True).raise_for_failure()
    world.engine.apply([desk("grown", memory_mib=1024)])[1].raise_for_failure()
    put_back()
    world.engine.refresh()
    assert world.ledger.frozen() is not None
    assert world.ledger.vm("moved").host == home
    ledger_thaw.thaw(world.engine)
    assert world.ledger.vm("moved").host == to
    assert world.ledger.vm("grown").spec.memory_mib == 1024
    assert {each.host for each in world.ledger.allocations() if each.vm == "moved"} == {to}
    assert ledger_knows_the_hosts(world)


def test_units_given_on_meanwhile_have_one_owner_again(world: SimWorld) -> None:
    """A full GPU on which one VM went and another came: nobody holds the units twice."""
    here = Affinity(hosts=("h2",))
    world.apply(*(desk(f"full-{number}", affinity=here) for number in range(4)))
    put_back = snapshot(world)
    world.delete("full-2")
    world.apply(desk("late", affinity=here))
    put_back()
    world.engine.refresh()
    with pytest.raises(PartlyDone) as caught:
        ledger_thaw.thaw(world.engine)
    assert "the ledger has its units as those of full-0, full-1, full-2" in caught.value.why
    assert "--forget NAME" in caught.value.why
    assert len(world.ledger.allocations()) == 4
    ledger_thaw.thaw(world.engine, forget=["full-2"])
    assert {each.vm for each in world.ledger.allocations()} == {
        "full-0",
        "full-1",
        "full-3",
        "late",
    }
    assert ledger_knows_the_hosts(world)


@BOTH
def test_a_name_used_again_is_a_conflict_until_the_operator_forgets_the_old(
    world: SimWorld,
) -> None:
    world.apply(desk("web"), desk("stays"))
    old = world.ledger.vm("web").id
    put_back = snapshot(world)
    world.delete("web")
    world.apply(desk("web"), desk("more"))
    put_back()
    world.engine.refresh()
    with pytest.raises(PartlyDone, match="stays frozen") as caught:
        ledger_thaw.thaw(world.engine)
    assert "--forget web" in caught.value.why
    assert world.ledger.frozen() is not None
    assert {each.name for each in world.ledger.vms()} == {"web", "stays", "more"}
    with pytest.raises(Conflict, match="stays is not gone"):
        ledger_thaw.thaw(world.engine, forget=["stays"])
    ledger_thaw.thaw(world.engine, forget=["web"])
    assert world.ledger.frozen() is None
    assert world.ledger.vm("web").id != old
    assert ledger_knows_the_hosts(world)


def test_every_host_must_answer_or_be_left_out_and_cordoned(world: SimWorld) -> None:
    put_back = snapshot(world)
    world.apply(desk("here", affinity=Affinity(hosts=("h1",))))
    world.apply(desk("there", affinity=Affinity(hosts=("h2",))))
    put_back()
    world.engine.refresh()
    world.sim.host("h2").faults.unreachable = True
    with pytest.raises(HostUnreachable, match="did not report"):
        ledger_thaw.thaw(world.engine)
    assert world.ledger.frozen() is not None
    ledger_thaw.thaw(world.engine, without=["h2"])
    assert world.ledger.frozen() is None
    assert world.ledger.host("h2").cordoned
    assert [each.name for each in world.ledger.vms()] == ["here"]
    world.sim.host("h2").faults.unreachable = False
    world.engine.refresh()
    assert world.ledger.frozen() is None, "what a cordoned host says is believed of itself alone"
    world.ledger.update_host(replace(world.ledger.host("h2"), cordoned=False))
    world.engine.refresh()
    assert "there" in (world.ledger.frozen() or NOTHING).why


NOTHING = Freeze(why="", at=0.0)


def test_a_claim_whose_creation_was_cut_can_be_deleted_afterwards(world: SimWorld) -> None:
    put_back = snapshot(world)
    world.apply(desk("cut"))
    where = world.ledger.vm("cut").host
    opened = world.hosts.open(world.ledger.host(where))
    opened.domains.destroy("cut")
    opened.domains.undefine("cut")
    put_back()
    world.engine.refresh()
    ledger_thaw.thaw(world.engine)
    [left] = world.ledger.vms()
    assert left.name.startswith("cut-")
    world.delete(left.name)
    assert (world.facts(where).claims, world.facts(where).mdevs) == ((), ())


def test_a_frozen_ledger_starts_nothing_and_still_gives_back(world: SimWorld) -> None:
    world.apply(desk("old"), desk("other"))
    world.ledger.freeze("because")
    world.ledger.freeze("a second reason is not kept")
    assert (world.ledger.frozen() or NOTHING).why == "because"
    world.engine.stop_vms(["old"], force=True, timeout_s=1).raise_for_failure()
    refused: list[Callable[[], object]] = [
        lambda: world.engine.start(["old"]),
        lambda: world.engine.apply([desk("new")]),
        lambda: world.engine.apply([desk("old", memory_mib=1024)]),
        lambda: world.engine.migrate("old", _other(world, "old"), cold=True),
        lambda: world.cut(GpuLayout(), host="h1"),
    ]
    for act in refused:
        with pytest.raises(Frozen, match="frozen") as caught:
            act()
        assert (caught.value.why, caught.value.next) == ("because", "vgpumgr store thaw")
    world.delete("old")
    assert [each.name for each in world.ledger.vms()] == ["other"]
    ledger_thaw.thaw(world.engine)
    world.apply(desk("new"))


def _other(world: SimWorld, name: str) -> str:
    return "h2" if world.ledger.vm(name).host == "h1" else "h1"


def test_a_host_that_was_installed_anew_is_set_aside_and_frees_nothing(world: SimWorld) -> None:
    world.apply(desk("web", affinity=Affinity(hosts=("h1",))))
    world.engine.refresh()
    held = world.ledger.allocations()
    blank(world, "h1")
    lines = world.engine.refresh_all()
    assert len(lines) == 1
    assert "h1 was cordoned" in lines[0]
    assert (world.ledger.host("h1").cordoned, world.ledger.host("h2").cordoned) == (True, False)
    assert world.ledger.allocations() == held
    assert world.ledger.frozen() is None
    [told] = [each for each in world.engine.drift(["h1"]).drifts if each.kind == "reinstalled"]
    assert "vgpumgr host uncordon h1" in told.next
    world.apply(desk("new"))
    assert world.ledger.vm("new").host == "h2"


def blank(world: SimWorld, name: str) -> None:
    """The host's disk is empty: no claims, no epoch, no domains."""
    opened = world.hosts.open(world.ledger.host(name))
    for domain in world.facts(name).domains:
        opened.domains.destroy(domain.name)
        opened.domains.undefine(domain.name)
    system = world.sim.host(name).system
    for unit in system.list(claims.CLAIMS):
        system.remove(f"{claims.CLAIMS}/{unit}")
    for fleet in system.list(claims.EPOCHS):
        system.remove(f"{claims.EPOCHS}/{fleet}")


# -- the evidence itself -------------------------------------------------------------------------

KNOWN = Remembered(fleet="f", epoch=3, vms={"v": 2}, allocations={"a": 1}, gpus={"g": 5})


def claim(allocation: str, generation: int = 1, unit: str = "mdev-u", **fields: Any) -> ClaimFacts:
    values = {"unit": unit, "fleet": "f", "epoch": 3, "vm": "web", "wanted": {}}
    return ClaimFacts(allocation=allocation, generation=generation, **(values | fields))


def domain(vm_id: str, generation: int, fleet: str = "f") -> DomainFacts:
    mark = Ownership(fleet=fleet, vm="web", vm_id=vm_id, generation=generation)
    return DomainFacts(name="web", uuid=vm_id, state=DomainState.RUNNING, ownership=mark)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, False),
        ({"epoch": 3}, False),
        ({"epoch": None}, False),
        ({"epoch": 4}, True),
        ({"epochs": {"f": 3}, "epoch": 9}, False),
        ({"epochs": {"f": 4}}, True),
        ({"epochs": {"another": 9}}, False),
        ({"epochs": {"f": 10**9}}, False),
        ({"claims": (claim("a"),)}, False),
        ({"claims": (claim("a", 2),)}, True),
        ({"claims": (claim("b"),)}, True),
        ({"claims": (claim("b", fleet="another"),)}, False),
        ({"claims": (claim("g", 5, "layout-0000:41:00.0"),)}, False),
        ({"claims": (claim("g", 6, "layout-0000:41:00.0"),)}, True),
        ({"claims": (claim("a gpu of the lost time", 9, "layout-0000:41:00.0"),)}, False),
        ({"domains": (domain("v", 2),)}, False),
        ({"domains": (domain("v", 1),)}, False),
        ({"domains": (domain("v", 3),)}, True),
        ({"domains": (domain("w", 1),)}, True),
        ({"domains": (domain("w", 1, "another"),)}, False),
    ],
)
def test_what_proves_that_a_ledger_is_older(fields: dict[str, Any], found: bool) -> None:
    lines = evidence([values.facts("h1", **fields)], KNOWN)
    assert bool(lines) == found
    assert all(line.startswith("h1 has ") for line in lines)


def test_what_is_left_of_something_released_is_no_proof(world: SimWorld) -> None:
    """Rows are closed, never deleted: the ledger remembers what it gave back."""
    world.apply(desk("web"))
    [held] = world.ledger.allocations()
    opened = world.hosts.open(world.ledger.host(held.host))
    record = world.ledger.vm("web")
    world.delete("web")
    presented = {"allocation": held.id, "generation": held.generation, "vm": "web"}
    made = {"parent": held.parent, "type": held.type_id, "uuid": held.device, "claim": presented}
    opened.helper.call("mdev_create", made)
    world.engine.refresh()
    assert world.facts(held.host).claims
    assert world.ledger.frozen() is None
    assert record.id in world.ledger.remembered(vms=[record.id], allocations=[], gpus=[]).vms

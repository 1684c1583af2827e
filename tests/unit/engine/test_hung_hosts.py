"""A plan for a VM that may go anywhere does not wait for hosts that hang, on virtual time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.fakes import FakeClock
from tests.hanging import DEADLINE_S, SlowHosts, spread
from tests.simworld import host
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import WAIT_LIMITS
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.model.vm import Affinity, GpuRequest, VmSpec
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.store import open_ledger

pytestmark = pytest.mark.thorough

NAMES = [f"h{number:02}" for number in range(50)]
HUNG = {"h03", "h13", "h23", "h33", "h43"}
SLOWEST_S = 0.7
BIG = "h07"


@dataclass
class Fleet:
    """50 simulated hosts; each look at one takes 0.3 to 0.7 s, and five hang."""

    engine: Engine
    slow: SlowHosts
    clock: FakeClock

    def took(self) -> float:
        """Seconds since this was asked last."""
        before, self._since = getattr(self, "_since", self.clock.time), self.clock.time
        return self.clock.time - before

    def why(self, name: str) -> str:
        return self.engine.ledger.host(name).last_error


@pytest.fixture(scope="module")
def enrolled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    clock = FakeClock()
    ledger = open_ledger(tmp_path_factory.mktemp("fleet") / "ledger.db", now=clock.now)
    identity = (ledger.fleet_id(), ledger.epoch())
    sizes = {BIG: 512}
    made = tuple(host("T4", name=name, cpus=sizes.get(name, 256)) for name in NAMES)
    simulated = SimFleet(name="tests", hosts=made)
    hosts = InProcessHosts(simulated, identity=lambda: identity)
    for name in NAMES:
        ledger.add_host(HostRecord(name=name, address=f"sim://{name}"))
    slow = SlowHosts(hosts, clock, spread(NAMES, last_s=SLOWEST_S))
    engine = Engine(
        ledger=ledger,
        hosts=slow,
        lanes=SerialWorkers(clock),
        clock=clock,
        new_uuid=lambda: str(uuid.uuid4()),
        stop=threading.Event(),
    )
    engine.refresh()
    yield Fleet(engine, slow, clock)
    hosts.close()
    ledger.close()


@pytest.fixture
def fleet(enrolled: Fleet) -> Fleet:
    """All answer again, as a controller's look would have seen, and then five hang."""
    enrolled.slow.hung.clear()
    enrolled.slow.takes_s = spread(NAMES, last_s=SLOWEST_S)
    if unread := [name for name in NAMES if enrolled.why(name)]:
        enrolled.engine.refresh(unread)
    enrolled.slow.hung |= HUNG
    enrolled.took()
    return enrolled


def vm(name: str = "web", *hosts: str, vcpus: int = 1) -> VmSpec:
    gpus = (GpuRequest(profile="T4-4Q"),)
    near = Affinity(hosts=hosts)
    return VmSpec(name=name, vcpus=vcpus, memory_mib=512, gpus=gpus, affinity=near)


def test_five_of_fifty_that_hang_cost_seconds_instead_of_their_deadline(fleet: Fleet) -> None:
    planned = fleet.engine.plan([vm()])
    assert fleet.took() == pytest.approx(WAIT_LIMITS.least_s)
    assert [action.host in HUNG for action in planned.actions] == [False]
    assert planned.warnings == tuple(
        f"host {name} did not answer within 5.0 s and was not considered" for name in sorted(HUNG)
    )
    assert all(fleet.why(name) == "did not answer within 5.0 s" for name in HUNG)
    assert fleet.engine.ledger.host("h03").facts is not None


def test_the_next_plan_does_not_wait_for_a_host_whose_last_look_failed(fleet: Fleet) -> None:
    fleet.engine.plan([vm()])
    fleet.took()
    planned = fleet.engine.plan([vm()])
    assert fleet.took() == pytest.approx(SLOWEST_S + WAIT_LIMITS.doubted_s)
    assert planned.warnings[0] == (
        "host h03 did not answer within 2.7 s and was not considered; "
        "its last probe failed: did not answer within 5.0 s"
    )
    fleet.slow.hung.clear()
    assert fleet.engine.plan([vm()]).warnings == ()
    assert fleet.took() == pytest.approx(SLOWEST_S)
    assert not any(fleet.why(name) for name in HUNG)


def test_who_names_a_host_that_hangs_waits_for_it_and_for_no_other(fleet: Fleet) -> None:
    fleet.slow.asked.clear()
    with pytest.raises(NoPlacement, match="cannot be placed") as refused:
        fleet.engine.apply([vm("web", "h03")])
    assert fleet.took() == pytest.approx(DEADLINE_S)
    assert fleet.slow.asked == ["h03"]
    assert "libvirt on h03 did not answer within 26 s" in refused.value.why


def test_one_that_names_it_beside_one_that_does_not_waits_for_that_host_alone(
    fleet: Fleet,
) -> None:
    planned = fleet.engine.plan([vm("web", "h03"), vm("other")])
    assert fleet.took() == pytest.approx(DEADLINE_S)
    assert [refused.request.name for refused in planned.unplaced] == ["web"]


def test_a_refusal_is_spoken_only_when_all_have_had_their_time(fleet: Fleet) -> None:
    with pytest.raises(NoPlacement) as refused:
        fleet.engine.apply([vm(vcpus=5000)])
    assert fleet.took() == pytest.approx(DEADLINE_S)
    assert "h03: not reached: libvirt on h03 did not answer within 26 s" in refused.value.why


def test_few_answers_are_not_enough_to_leave_anybody_out(fleet: Fleet) -> None:
    fleet.slow.hung |= set(NAMES[24:])
    planned = fleet.engine.plan([vm()])
    assert fleet.took() == pytest.approx(DEADLINE_S)
    assert len(planned.warnings) == len(fleet.slow.hung)


def test_a_host_that_is_slow_and_needed_is_found(fleet: Fleet) -> None:
    fleet.slow.takes_s = {**fleet.slow.takes_s, BIG: 9.0}
    fleet.slow.hung.clear()
    assert fleet.engine.plan([vm()]).warnings == (
        f"host {BIG} did not answer within 5.0 s and was not considered",
    )
    assert fleet.took() == pytest.approx(WAIT_LIMITS.least_s)
    (action,) = fleet.engine.plan([vm(vcpus=1500)]).actions
    assert (action.host, fleet.why(BIG)) == (BIG, "")
    assert fleet.took() == pytest.approx(9.0)


def test_after_an_outage_of_most_hosts_none_is_doubted(fleet: Fleet) -> None:
    fleet.slow.hung.clear()
    for name in NAMES[:30]:
        fleet.engine.ledger.observation_failed(name, "no route to host")
    fleet.slow.takes_s = {**fleet.slow.takes_s, BIG: 1.9}
    assert fleet.engine.plan([vm()]).warnings == ()
    assert fleet.took() == pytest.approx(1.9)

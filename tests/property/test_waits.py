"""Who of many is waited for, over any hosts: quick, slow, hung, failing, named, doubted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import FakeClock
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import WaitForAll, WaitForCandidates
from vgpumgr.model.errors import HostUnreachable
from vgpumgr.model.ports import WAIT_LIMITS

DEADLINE_S = 30.0


@dataclass(frozen=True)
class Case:
    """What each host takes, ``DEADLINE_S`` for one that hangs; who fails, is named, is doubted."""

    takes_s: dict[str, float]
    failing: frozenset[str]
    named: frozenset[str]
    doubted: frozenset[str]


SECONDS = st.one_of(st.floats(0.01, 0.9), st.floats(0.01, 6.0), st.just(DEADLINE_S))
ABOUT = st.sampled_from(["", "", "", "failing", "named", "doubted"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    hosts = draw(st.lists(st.tuples(SECONDS, ABOUT), min_size=1, max_size=12))
    names = [f"h{number}" for number in range(len(hosts))]

    def those(kind: str) -> frozenset[str]:
        return frozenset(n for n, (_, about) in zip(names, hosts, strict=True) if about == kind)

    takes_s = {name: seconds for name, (seconds, _) in zip(names, hosts, strict=True)}
    return Case(takes_s, those("failing"), those("named"), those("doubted"))


class Run:
    """The looks of a case, on virtual time."""

    def __init__(self, case: Case, takes_s: Mapping[str, float]) -> None:
        self.clock = FakeClock(time=0.0)
        self.kept: list[str] = []
        work = {name: partial(self._look, case, name) for name in takes_s}
        self.looks = SerialWorkers(self.clock).look(work, self._keep)
        self.silent = dict(
            self.looks.wait(WaitForCandidates(named=case.named, doubted=case.doubted))
        )
        self.took_s = self.clock.time

    def _look(self, case: Case, name: str) -> str:
        self.clock.wait(case.takes_s[name])
        if name in case.failing or case.takes_s[name] == DEADLINE_S:
            raise HostUnreachable(name)
        return name

    def _keep(self, host: str, value: str) -> str:
        self.kept.append(host)
        return value


@given(cases())
def test_who_is_left_out(case: Case) -> None:
    run = Run(case, case.takes_s)
    assert set(run.looks.answers) | set(run.silent) == set(case.takes_s)
    assert not set(run.looks.answers) & set(run.silent)
    assert not case.named & set(run.silent)
    assert set(run.kept) == {h for h, v in run.looks.answers.items() if isinstance(v, str)}
    if not run.silent:
        return
    assert all(case.takes_s[host] > run.took_s for host in run.silent)
    if not run.silent.keys() <= case.doubted:
        assert len(run.kept) >= len(run.silent)
        assert run.took_s >= WAIT_LIMITS.least_s


@given(cases())
def test_no_wait_is_longer_than_three_times_the_slowest_of_those_that_answered(case: Case) -> None:
    run = Run(case, case.takes_s)
    if not run.silent:
        return
    slowest = max(case.takes_s[host] for host in run.kept)
    last = max(case.takes_s[host] for host in run.looks.answers)
    assert run.took_s <= max(WAIT_LIMITS.least_s, WAIT_LIMITS.times * slowest, last) + 1e-6


@given(cases())
def test_the_order_of_the_hosts_does_not_matter(case: Case) -> None:
    forth = Run(case, case.takes_s)
    back = Run(case, dict(reversed(case.takes_s.items())))
    assert (forth.silent, forth.took_s) == (back.silent, back.took_s)


@given(cases())
def test_who_waits_on_misses_nobody(case: Case) -> None:
    run = Run(case, case.takes_s)
    assert run.looks.wait(WaitForAll(WAIT_LIMITS.look_s)) == {}
    assert set(run.looks.answers) == set(case.takes_s)
    assert run.clock.time == max(case.takes_s.values())

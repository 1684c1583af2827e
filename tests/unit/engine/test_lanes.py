"""Threads side by side: a lane that does not return holds up nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import ThreadWorkers, WaitForAll, WaitForCandidates
from vgpumgr.model.errors import Conflict, DatabaseFault, DeadlineExceeded, HostRefused
from vgpumgr.model.ports import HostExecutor, WaitLimits

SHORT = WaitLimits(least_s=0.05, look_s=20.0)


@pytest.fixture
def door() -> Iterator[threading.Event]:
    """Whoever waits at it hangs until the test is over, or lets him through."""
    made = threading.Event()
    yield made
    made.set()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


class Kept:
    """What was kept of the answers."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def __call__(self, host: str, value: object) -> object:
        self.hosts.append(host)
        return value


def test_a_lane_that_does_not_return_is_left_alone(door: threading.Event) -> None:
    lanes = ThreadWorkers()
    found = lanes.run({"a": lambda: 0, "b": door.wait, "c": lambda: None}, within_s=0.1)
    assert list(found) == ["a", "b", "c"]
    assert (found["a"], found["c"]) == (0, None)
    assert isinstance(found["b"], DeadlineExceeded)
    assert list(lanes.hanging()) == ["b"]
    door.set()
    until(lambda: not lanes.hanging())


def test_a_lane_that_does_not_return_does_not_keep_the_process() -> None:
    program = (
        "import threading; from vgpumgr.engine.workers.thread_workers import ThreadWorkers; "
        "print(ThreadWorkers().run({'h1': threading.Event().wait}, within_s=0.1)['h1'].message)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.startswith("h1 did not answer within")


def test_hosts_that_hang_give_their_places_to_others(door: threading.Event) -> None:
    lanes = ThreadWorkers(most=2, gives_way_s=0.05)
    work = {"a": door.wait, "b": door.wait} | {name: (lambda: 1) for name in "cdefg"}
    found = lanes.run(work, within_s=1.0)
    assert [host for host, value in found.items() if value == 1] == list("cdefg")


def test_work_keeps_its_place_however_long_it_takes() -> None:
    lanes, at_once = ThreadWorkers(most=2, gives_way_s=0.0), threading.Semaphore(2)

    def work() -> bool:
        free = at_once.acquire(blocking=False)
        time.sleep(0.02)
        at_once.release()
        return free

    assert set(lanes.run(dict.fromkeys("abcdef", work), within_s=None).values()) == {True}


def test_what_comes_when_nobody_waits_any_more_is_not_kept(door: threading.Event) -> None:
    lanes, kept = ThreadWorkers(), Kept()
    looks = lanes.look({"a": lambda: 1, "b": lambda: 1, "c": door.wait}, kept)
    silent = looks.wait(WaitForCandidates(waits=SHORT))
    assert (list(silent), sorted(kept.hosts)) == (["c"], ["a", "b"])
    assert silent["c"] >= SHORT.least_s
    looks.leave()
    door.set()
    until(lambda: not lanes.hanging())
    assert (sorted(kept.hosts), sorted(looks.answers)) == (["a", "b"], ["a", "b"])


def test_who_waits_once_more_gets_what_was_late(door: threading.Event) -> None:
    lanes, kept = ThreadWorkers(), Kept()
    looks = lanes.look({"a": lambda: 1, "b": lambda: 1, "c": door.wait}, kept)
    assert list(looks.wait(WaitForCandidates(waits=SHORT))) == ["c"]
    door.set()
    assert looks.wait(WaitForAll(20)) == {}
    assert looks.answers["c"] is True
    assert kept.hosts[-1] == "c"


def test_a_host_that_still_hangs_is_asked_again_only_where_it_is_named(
    door: threading.Event,
) -> None:
    lanes, asked = ThreadWorkers(), Kept()

    def ask(host: str, until: threading.Event | None = None) -> Callable[[], object]:
        return lambda: (asked(host, None), until and until.wait(30))

    first = lanes.look({"a": ask("a"), "b": ask("b"), "c": ask("c", door)}, Kept())
    first.wait(WaitForCandidates(waits=SHORT))
    first.leave()
    again = {host: ask(host) for host in "abc"}
    began = time.monotonic()
    looks = lanes.look(again, Kept())
    silent = looks.wait(WaitForCandidates(waits=WaitLimits(look_s=20.0)))
    assert time.monotonic() - began < 1.9
    assert (list(silent), asked.hosts.count("c")) == (["c"], 1)
    assert looks.wait(WaitForAll(20)) == {}
    assert asked.hosts.count("c") == 2
    door.set()
    until(lambda: not lanes.hanging())
    assert lanes.look(again, Kept()).wait(WaitForCandidates(named="c", waits=SHORT)) == {}


def test_errors_are_values_and_a_death_is_not(door: threading.Event) -> None:
    def refuse() -> None:
        raise HostRefused("no")

    def die() -> None:
        raise KeyboardInterrupt

    assert isinstance(ThreadWorkers().run({"a": refuse})["a"], HostRefused)
    with pytest.raises(KeyboardInterrupt):
        ThreadWorkers().run({"a": die, "b": door.wait})


def test_a_host_whose_answer_cannot_be_kept_has_failed() -> None:
    def refuse(host: str, value: object) -> object:
        raise HostRefused(f"{host}: no")

    looks = ThreadWorkers().look({"a": lambda: 1}, refuse)
    assert looks.wait(WaitForAll(20)) == {}
    assert str(looks.answers["a"]) == "a: no"


@pytest.mark.parametrize("lanes", [ThreadWorkers(), SerialWorkers()])
def test_a_ledger_that_cannot_keep_an_answer_is_no_fault_of_the_host(lanes: HostExecutor) -> None:
    def keep(host: str, value: object) -> object:
        raise DatabaseFault("the ledger is locked") if host == "b" else Conflict("not that GPU")

    alone = lanes.look({"a": lambda: 1}, keep)
    alone.wait(WaitForAll(20.0))
    assert isinstance(alone.answers["a"], Conflict)
    with pytest.raises(DatabaseFault):
        lanes.look({"b": lambda: 1}, keep).wait(WaitForAll(20.0))

"""Jobs between two hosts: the order of links, deadlines that move, and how a stall ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vgpumgr.hosts.deadlines import Deadlines
from vgpumgr.hosts.libvirt import guarded_libvirt
from vgpumgr.hosts.libvirt.guarded_libvirt import GuardedDomains, GuardedStorage, TwoHostJobs
from vgpumgr.hosts.libvirt.libvirt_link import HeldLink, LibvirtLink
from vgpumgr.model.domain import LiveMove, MigrationAddress, MoveProgress
from vgpumgr.model.errors import HostRefused, OutcomeUnknown
from vgpumgr.model.ports import Domains, Host

MOVE = LiveMove(name="web", live_xml="", persistent_xml="", to=MigrationAddress(address="h2"))
STALL_S = 0.5


class FakeLink:
    """A link whose connection does what ``migrate`` and ``copy_to`` say."""

    def __init__(self, host: str, log: list[str], work: Callable[..., None]) -> None:
        self.host = host
        self.call_s = STALL_S
        self.lock = threading.Lock()
        self.was_cut = threading.Event()
        self._log = log
        self._libvirt = SimpleNamespace(
            domains=SimpleNamespace(migrate=work), storage=SimpleNamespace(copy_to=work)
        )

    @contextmanager
    def held(self) -> Iterator[HeldLink]:
        with self.lock:
            self._log.append(f"held {self.host}")
            yield HeldLink(cast("Any", self._libvirt), self._cut)

    def _cut(self) -> None:
        self._log.append(f"cut {self.host}")
        self.was_cut.set()


class Beside:
    """The short connection: tells progress, and hears of a cancel."""

    def __init__(self, log: list[str], progress: Callable[[], MoveProgress | None]) -> None:
        self._log = log
        self._progress = progress
        self.cancelled = threading.Event()

    def cancel_migration(self, name: str) -> None:
        self._log.append(f"cancel {name}")
        self.cancelled.set()

    def migration_progress(self, name: str) -> MoveProgress | None:
        return self._progress()


def still() -> MoveProgress:
    return MoveProgress(total_bytes=10, left_bytes=5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_libvirt, "_POLL_S", 0.02)


def made(
    work: Callable[..., None], names: tuple[str, str] = ("h1", "h2")
) -> tuple[TwoHostJobs, list[str], list[FakeLink]]:
    log: list[str] = []
    links = [FakeLink(name, log, work) for name in names]
    return TwoHostJobs(*cast("list[LibvirtLink]", links)), log, links


def run(pair: TwoHostJobs, beside: Beside) -> None:
    pair.migrate(MOVE, cast("Domains", beside))


@pytest.mark.parametrize("names", [("h1", "h2"), ("h2", "h1")])
def test_links_are_taken_in_the_order_of_names(names: tuple[str, str]) -> None:
    pair, log, _ = made(lambda *_: None, names)
    run(pair, Beside(log, still))
    assert log == ["held h1", "held h2"]


def test_a_host_is_no_pair() -> None:
    pair, log, _ = made(lambda *_: None, ("h1", "h1"))
    with pytest.raises(HostRefused, match="both ends"):
        run(pair, Beside(log, still))


def test_two_opposite_moves_both_end() -> None:
    together = threading.Barrier(2, timeout=60)
    log: list[str] = []
    links = [cast("LibvirtLink", FakeLink(name, log, lambda *_: None)) for name in ("h1", "h2")]

    def one(pair: TwoHostJobs) -> None:
        together.wait()
        for _ in range(20):
            run(pair, Beside(log, still))

    threads = [
        threading.Thread(target=one, args=(TwoHostJobs(*each),), daemon=True)
        for each in (links, reversed(links))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
        assert not each.is_alive()


def test_a_move_that_moves_may_take_long() -> None:
    left = iter(range(10_000, 0, -1))

    def work(*_: object) -> None:
        threading.Event().wait(3 * STALL_S)

    pair, log, _ = made(work)
    run(pair, Beside(log, lambda: MoveProgress(total_bytes=10_000, left_bytes=next(left))))
    assert not [each for each in log if not each.startswith("held")]


def test_a_move_that_stalls_is_cancelled() -> None:
    log: list[str] = []
    beside = Beside(log, still)

    def work(*_: object) -> None:
        assert beside.cancelled.wait(60)
        raise HostRefused("it keeps running where it is", why="canceled by client")

    pair, log, _ = made(work)
    beside._log = log
    with pytest.raises(HostRefused, match="from h1 to h2 was aborted") as caught:
        run(pair, beside)
    assert f"nothing moved for {STALL_S:g} s" in caught.value.why
    assert log == ["held h1", "held h2", "cancel web"]


def test_one_that_does_not_listen_is_cut_the_source_first() -> None:
    log: list[str] = []

    def work(*_: object) -> None:
        assert links[1].was_cut.wait(60)
        raise OutcomeUnknown("cut", why="End of file")

    pair, log, links = made(work)
    with pytest.raises(OutcomeUnknown, match="from h1 to h2 was aborted"):
        run(pair, Beside(log, still))
    assert log[2:] == ["cancel web", "cut h1", "cut h2"]


def test_a_refusal_in_time_is_told_as_it_is() -> None:
    refusal = HostRefused("no", why="because")

    def work(*_: object) -> None:
        raise refusal

    pair, log, _ = made(work)
    with pytest.raises(HostRefused) as caught:
        run(pair, Beside(log, still))
    assert caught.value is refusal


def test_a_copy_lives_as_long_as_bytes_arrive_and_tells_of_them() -> None:
    heard: list[int] = []

    def work(pool: str, volume: str, there: object, seen: Callable[[int], None]) -> None:
        for done in range(5):
            threading.Event().wait(STALL_S / 3)
            seen(done)

    pair, log, _ = made(work)
    pair.copy("default", "disk", heard.append)
    assert heard == list(range(5))
    assert log == ["held h1", "held h2"]


def test_a_copy_that_stalls_is_cut() -> None:
    def work(*_: object) -> None:
        assert links[1].was_cut.wait(60)
        raise OutcomeUnknown("cut", why="End of file")

    pair, _, links = made(work)
    with pytest.raises(OutcomeUnknown, match="copy of volume default/disk"):
        pair.copy("default", "disk", lambda _: None)


def test_nothing_goes_to_a_host_of_another_kind() -> None:
    other = cast("Host", SimpleNamespace(name="sim-1", domains=object(), storage=object()))
    link = cast("LibvirtLink", None)
    with pytest.raises(HostRefused, match="sim-1"):
        GuardedDomains(link, link).migrate(MOVE, other)
    with pytest.raises(HostRefused, match="sim-1"):
        GuardedStorage(link, link).copy_to("default", "disk", other, lambda _: None)


def test_a_deadline_that_is_moved_fires_later_and_once() -> None:
    fired = threading.Event()
    with Deadlines().within(0.5, fired.set) as deadline:
        for _ in range(5):
            assert not fired.wait(0.15)
            deadline.moved()
        assert fired.wait(60)

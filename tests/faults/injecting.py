"""Every kill point of a scenario, once, and then a second time in what comes after."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.bench import COMMAND, Bench, Moment
from tests.faults.points import BEFORE, Point, point
from tests.faults.scenario import Scenario
from tests.faults.stores import Stores
from tests.faults.verdict import Figures, Judge


class Injector:
    """One scenario over one store."""

    def __init__(
        self, scenario: Scenario, stores: Stores, folder: Path, seed: int, *, replay: bool = True
    ) -> None:
        self._scenario = scenario
        self._name = f"{stores.name}:{scenario.name}"
        self._bench = Bench(scenario, stores, folder, seed)
        self._judge = Judge(scenario, self._bench.baseline)
        self.figures = Figures()
        self.points = self._undisturbed(replay=replay or not scenario.sure)

    def close(self) -> None:
        self._bench.close()

    def once(self, points: Iterable[int], until: float, end: str = "") -> None:
        """A kill at each of these points until a time; then that end, or one after the other."""
        ends = self._scenario.ends
        self.figures.kill_points += len(self.points)
        for at in points:
            if time.monotonic() > until:
                return
            with self._killed(at) as left:
                if left is not None:
                    self.figures.kill_points_covered += 1
                    self._ended(left, at, end or ends[at % len(ends)])

    def twice(self, at: int, end: str, until: float, only: int = 0) -> None:
        """A kill at this point, and another at each point of what comes after, until a time.

        A moment before a write is the moment after what was before it: those are left out.
        """
        with self._killed(at, counted=False) as left:
            if left is None:
                return
            passed = self._ended(left, at, end)
            again = [n for n, each in enumerate(passed, 1) if each.at != BEFORE]
            self.figures.pairs += len(again)
            for number in again:
                if only and number != only:
                    continue
                if time.monotonic() > until:
                    return
                self._twice(left, at, end, number)

    @property
    def first_kills(self) -> list[int]:
        """Points whose moments differ."""
        return [n for n, each in enumerate(self.points, 1) if each.at != BEFORE]

    def _undisturbed(self, *, replay: bool) -> list[Point]:
        """The command left alone, then typed again: its points, and how it may end."""
        where, sure = f"{self._name}:0", self._scenario.sure
        ended, left, dump = self._bench.run(self._bench.start, COMMAND, at=0)
        if ended.error and sure:
            self.figures.blame("HARNESS", where, f"fails undisturbed:\n{ended.error}")
        self._judge.allow(dump)
        if replay:
            self._replayed(left, where)
        left.hosts.quit()
        return [point(each) for each in ended.told]

    def _replayed(self, left: Moment, where: str) -> None:
        """I5: the same command once more changes nothing."""
        ended, last, dump = self._bench.run(left, "again", at=0)
        if not self._scenario.sure:
            self._judge.allow(dump)
        self._judge.at_end(self.figures, f"{where}:again", ended, dump, "again")
        last.hosts.quit()

    @contextmanager
    def _killed(self, at: int, *, counted: bool = True) -> Iterator[Moment | None]:
        where = f"{self._name}:{at}"
        ended, left, dump = self._bench.run(self._bench.start, COMMAND, at)
        figures = self.figures if counted else Figures()
        self._judge.at_kill(figures, f"{where} ({self.points[at - 1]})", ended, dump)
        told = [point(each) for each in ended.told]
        if ended.killed and told != [self.points[at - 1]]:
            figures.blame("HARNESS", where, f"killed at {told}, not {self.points[at - 1]}")
        try:
            yield left if ended.killed else None
        finally:
            left.hosts.quit()

    def _ended(self, left: Moment, at: int, end: str) -> list[Point]:
        where = f"{self._name}:{at}:{end} ({self.points[at - 1]})"
        ended, last, dump = self._bench.run(left, end, at=0)
        self._judge.at_end(self.figures, where, ended, dump, end)
        last.hosts.quit()
        return [point(each) for each in ended.told]

    def _twice(self, left: Moment, at: int, end: str, number: int) -> None:
        where = f"{self._name}:{at}:{end}:{number} ({self.points[at - 1]}; then in {end})"
        ended, second, dump = self._bench.run(left, end, at=number)
        self._judge.at_kill(self.figures, where, ended, dump)
        if ended.killed:
            self.figures.pairs_covered += 1
            where = f"{where[:-1]} {point(ended.told[-1])})"
            ended, last, dump = self._bench.run(second, end, at=0)
            self._judge.at_end(self.figures, where, ended, dump, end)
            last.hosts.quit()
        second.hosts.quit()

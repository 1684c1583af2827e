"""Kill points of a scenario, each once, and then a second time in what comes after."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from tests.faults.bench import COMMAND, Bench, Left, Moment
from tests.faults.points import BEFORE, Pair, Point, moments, point
from tests.faults.processes import Ended
from tests.faults.scenario import Scenario
from tests.faults.stores import Stores
from tests.faults.verdict import Figures, Judge


class Injector:
    """One scenario over one store; ``pairs`` are the second kills that there may be."""

    def __init__(
        self, scenario: Scenario, stores: Stores, folder: Path, seed: int, *, replay: bool = True
    ) -> None:
        self._scenario = scenario
        self._name = f"{stores.name}:{scenario.name}"
        self._bench = Bench(scenario, stores, folder, seed)
        self._judge = Judge(scenario, self._bench.baseline)
        self.figures = Figures()
        self.pairs: list[Pair] = []
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
            left = self._killed(at, self.figures)
            if left is not None:
                self.figures.kill_points_covered += 1
                self._ended(left, at, end or ends[at % len(ends)])

    def twice(self, pair: Pair, until: float) -> None:
        """A kill at this point, and others in what comes after, until a time."""
        left = self._killed(pair.at, Figures())
        if left is None:
            return
        moment = self._bench.keep(left)
        for number in pair.seconds:
            if time.monotonic() > until:
                break
            self._twice(moment, pair, number)
        self._bench.drop(moment)

    def _undisturbed(self, *, replay: bool) -> list[Point]:
        """The command left alone, then typed again: its points, and how it may end."""
        where, sure = f"{self._name}:0", self._scenario.sure
        ended, left, dump = self._bench.run(self._bench.start, COMMAND, at=0)
        if ended.error and sure:
            self.figures.blame("HARNESS", where, f"fails undisturbed:\n{ended.error}")
        self._judge.allow(dump)
        if replay:
            self._replayed(left, where)
        else:
            self._bench.drop(left)
        return _points(ended)

    def _replayed(self, left: Left, where: str) -> None:
        """I5: the same command once more changes nothing."""
        ended, dump = self._bench.go_on(left, "again")
        if not self._scenario.sure:
            self._judge.allow(dump)
        self._judge.at_end(self.figures, f"{where}:again", ended, dump, "again")

    def _killed(self, at: int, figures: Figures) -> Left | None:
        """What the command left when it was killed there; None, and blamed, when it was not."""
        where = f"{self._name}:{at}"
        ended, left, dump = self._bench.run(self._bench.start, COMMAND, at)
        self._judge.at_kill(figures, f"{where} ({self.points[at - 1]})", ended, dump)
        told = _points(ended)
        if ended.killed and told != [self.points[at - 1]]:
            figures.blame("HARNESS", where, f"killed at {told}, not {self.points[at - 1]}")
        if not ended.killed:
            self._bench.drop(left)
        return left if ended.killed else None

    def _ended(self, left: Left, at: int, end: str) -> None:
        where = f"{self._name}:{at}:{end} ({self.points[at - 1]})"
        ended, dump = self._bench.go_on(left, end)
        self._judge.at_end(self.figures, where, ended, dump, end)
        if self.points[at - 1].at != BEFORE:
            self.pairs.append(Pair(at, end, moments(_points(ended))))

    def _twice(self, moment: Moment, pair: Pair, number: int) -> None:
        first = f"{self._name}:{pair.at}:{pair.end}:{number} ({self.points[pair.at - 1]}; then in"
        ended, left, dump = self._bench.run(moment, pair.end, at=number)
        self._judge.at_kill(self.figures, f"{first} {pair.end})", ended, dump)
        if not ended.killed:
            self._bench.drop(left)
            return
        self.figures.pairs_covered += 1
        ended_at = f"{first} {pair.end} {_points(ended)[-1]})"
        ended, dump = self._bench.go_on(left, pair.end)
        self._judge.at_end(self.figures, ended_at, ended, dump, pair.end)


def _points(ended: Ended) -> list[Point]:
    """Those that a process passed; if it was killed, the one it was killed at."""
    return [point(each) for told in ended.told for each in told]

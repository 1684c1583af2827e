"""What a run has found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.faults.lane import Job
from tests.faults.order import Key
from tests.faults.points import Pair, Point, pair, point
from tests.faults.scenarios import ALL
from tests.faults.verdict import Figures


@dataclass(slots=True)
class Tally:
    """``figures`` are by operation, part and store, ``passed`` and ``pairs`` by scenario (and
    store): what a next round can be chosen from.
    """

    figures: dict[tuple[str, str, str], Figures] = field(default_factory=dict)
    passed: dict[str, list[Point]] = field(default_factory=dict)
    pairs: dict[Key, list[Pair]] = field(default_factory=dict)

    def add(self, job: Job, answer: dict[str, Any]) -> Figures:
        """One job's answer; its figures."""
        found = Figures.of(answer["figures"])
        pairs = [pair(each) for each in answer["pairs"]]
        found.pairs = sum(len(each.seconds) for each in pairs)
        scenario = ALL[job.scenario]
        key = (scenario.operation, scenario.part, job.store)
        self.figures.setdefault(key, Figures()).add(found)
        self.passed[job.scenario] = [point(each) for each in answer["points"]]
        self.pairs.setdefault((job.scenario, job.store), []).extend(pairs)
        return found

    @property
    def points(self) -> list[Point]:
        """Every point that was passed."""
        return [each for passed in self.passed.values() for each in passed]

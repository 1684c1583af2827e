"""What one run of a killed command and its recovery amounts to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.checker.check import check, check_any_time
from tests.checker.operations import needs_operator
from tests.checker.seen import Seen
from tests.faults.processes import Ended
from tests.faults.scenario import Scenario
from tests.faults.shape import shape

GOAL = "GOAL"


@dataclass(slots=True)
class Figures:
    """Sums over many injections; plain, so that processes can hand them on."""

    kill_points: int = 0
    kill_points_covered: int = 0
    pairs: int = 0
    pairs_covered: int = 0
    injections: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    dual_running_s: float = 0.0
    needs_operator: int = 0
    converge_s: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Sum up."""
        self.kill_points += other.kill_points
        self.kill_points_covered += other.kill_points_covered
        self.pairs += other.pairs
        self.pairs_covered += other.pairs_covered
        self.injections += other.injections
        self.rules.update(other.rules)
        self.dual_running_s += other.dual_running_s
        self.needs_operator += other.needs_operator
        self.converge_s += other.converge_s
        self.broken += other.broken

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "rules": dict(self.rules)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Figures:
        """The reverse."""
        return cls(**{**plain, "rules": Counter(plain["rules"])})

    def blame(self, rule: str, where: str, what: str) -> None:
        """Note that something is broken, and how to see it again."""
        self.rules[rule] += 1
        self.broken.append(f"{where}: {what}" if rule in what else f"{where}: {rule}: {what}")


class Judge:
    """Judges the ends of one scenario by where it began and how it ends undisturbed."""

    def __init__(self, scenario: Scenario, baseline: Mapping[str, Any]) -> None:
        self._scenario = scenario
        self._baseline = baseline
        self._before = shape(Seen(baseline))
        # A host that was rebooted, say: whoever does nothing leaves it so. But an operation that
        # was open ends, and all that it left with it.
        known = frozenset(check(baseline))
        self._known = frozenset() if any(each.rule == "I4" for each in known) else known
        self._after: list[Any] = []

    def allow(self, dump: Mapping[str, Any]) -> None:
        """Another way in which the command may end."""
        self._after.append(shape(Seen(dump)))

    def at_kill(self, figures: Figures, where: str, ended: Ended, dump: Mapping[str, Any]) -> None:
        """A process was to be killed: was it, and is what it left sound for the moment?"""
        if not ended.killed:
            why = ended.error or "it passed fewer points than before"
            figures.blame("HARNESS", where, f"not killed: {why}")
            return
        figures.injections += 1
        for violation in check_any_time(dump):
            figures.blame(violation.rule, where, str(violation))

    def at_end(
        self, figures: Figures, where: str, ended: Ended, dump: Mapping[str, Any], end: str
    ) -> None:
        """Recovery is over: do all invariants hold, and is it an end that may be?"""
        sure = self._scenario.sure and end == "again"
        figures.converge_s.append(ended.seconds)
        if ended.error:
            figures.blame("I4", where, f"recovery raised:\n{ended.error}")
        known = frozenset() if sure else self._known
        for violation in check(dump, self._baseline):
            if violation in known or violation.name in self._scenario.excused:
                continue
            figures.blame(violation.rule, where, str(violation))
        for task in needs_operator(Seen(dump)):
            figures.needs_operator += 1
            figures.broken.append(f"{where}: needs an operator: {task}")
        figures.dual_running_s += dump["watch"]["dual_running_s"]
        allowed = self._after if sure else [self._before, *self._after]
        found = shape(Seen(dump))
        free = self._scenario.several and end != "again"
        if found not in allowed and not free:
            figures.blame(GOAL, where, f"not as when undisturbed: {_differences(allowed, found)}")


def _differences(allowed: Sequence[Any], found: Any) -> str:
    """Against the nearest of what was allowed."""
    lists = [list(_paths(each, found, "")) for each in allowed]
    return "; ".join(min(lists, key=len)[:6])


def _paths(wanted: Any, found: Any, path: str) -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            line
            for key in sorted({*wanted, *found})
            for line in _paths(wanted.get(key), found.get(key), f"{path}.{key}")
        ]
    return [] if wanted == found else [f"{path}: {found!r} instead of {wanted!r}"]

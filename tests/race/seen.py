"""What the clients of a race saw, and whether it is as it has to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Report = dict[str, Any]

WON = "won"

# What a loser may be told: that another was faster, or that there is no room.
_TOLD = frozenset({"conflict.generation", "placement.none"})


@dataclass
class Seen:
    """One client's part: whether it won, by round; its answers; seconds per attempt; processor
    seconds in all.

    ``anew`` are the answers of the engine's planning while another held the slice.
    """

    wins: list[bool] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    anew: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    doubles: int = 0
    cpu_s: float = 0.0

    def answered(self, answer: str, seconds: float) -> bool:
        """Note one attempt; did it win?"""
        self.wins.append(answer == WON)
        self.answers[answer] += 1
        self.seconds.append(seconds)
        return self.wins[-1]


def summed(seen: Sequence[Seen]) -> Report:
    """Every client's part, put together round by round."""
    winners = [sum(each) for each in zip(*(one.wins for one in seen), strict=True)]
    answers = sum((one.answers for one in seen), Counter[str]())
    seconds = sorted(second for one in seen for second in one.seconds)
    return {
        "rounds": len(winners),
        "winners_per_round": {"min": min(winners), "max": max(winners)},
        "double_allocations": sum(one.doubles for one in seen),
        "attempts": len(seconds),
        "clients_cpu_ms_per_round": round(1000 * sum(one.cpu_s for one in seen) / len(winners), 1),
        "losers": {kind: count for kind, count in answers.most_common() if kind != WON},
        "planned_anew": dict(sum((one.anew for one in seen), Counter[str]())),
        "attempt_ms": {
            "mean": round(1000 * sum(seconds) / len(seconds), 2),
            "p50": _ms(seconds, 0.50),
            "p99": _ms(seconds, 0.99),
            "max": _ms(seconds, 1.0),
        },
    }


def sound(report: Report) -> bool:
    """One winner in every round, nothing twice, and every loser told."""
    return (
        report["winners_per_round"] == {"min": 1, "max": 1}
        and report["double_allocations"] == 0
        and set(report["planned_anew"]) <= {"placement.none"}
        and all(kind.partition(":")[0] in _TOLD for kind in report["losers"])
    )


def _ms(sorted_seconds: Sequence[float], share: float) -> float:
    last = len(sorted_seconds) - 1
    return round(1000 * sorted_seconds[round(last * share)], 2)

"""What a soak came to, as ``build/soak.json`` has it: what failed comes first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.soak.runner import Found
from tests.soak.tally import Key, grouped, operations


@dataclass
class Report:
    """The sum of all seeds so far."""

    wanted: int
    processes: int
    seeds: list[int] = field(default_factory=list)
    failed: dict[int, Found] = field(default_factory=dict)
    counts: Counter[Key] = field(default_factory=Counter)
    cpu_s: float = 0.0

    @property
    def operations(self) -> int:
        """How many ran."""
        return operations(self.counts)

    def add(self, found: Found) -> None:
        """One more seed."""
        self.seeds.append(found.seed)
        self.counts += found.counts
        self.cpu_s += found.cpu_s
        if found.failure:
            self.failed[found.seed] = found

    def shortened(self, found: Found) -> None:
        """A failing seed ran again; one that did not fail this time keeps its first failure."""
        if found.failure:
            self.failed[found.seed] = found

    def plain(self, seconds: float) -> dict[str, Any]:
        """For JSON."""
        return {
            "failures": [
                {"seed": each.seed, "error": each.failure, "frozen_test": each.test}
                for _, each in sorted(self.failed.items())
            ],
            "operations": self.operations,
            "operations_wanted": self.wanted,
            "operations_per_s": round(self.operations / max(seconds, 0.1), 1),
            "operations_per_cpu_s": round(self.operations / max(self.cpu_s, 0.1), 1),
            "seconds": round(seconds),
            "processes": self.processes,
            "seeds": sorted(self.seeds),
            **grouped(self.counts),
        }

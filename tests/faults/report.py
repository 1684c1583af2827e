"""The figures of a run, as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from tests.faults.verdict import Figures

# What each figure counts.
_RULES = {
    "double_allocations": ("I1",),
    "leaks": ("I2", "I3"),
    "lost_vms": ("I6",),
    "unresolved": ("I4",),
}
_FIGURES = ("kill_points", "kill_points_covered", "pairs", "pairs_covered", "injections")

_COLUMNS = {
    "kill_points": "kill points",
    "single_kills": "single kills",
    "pairs": "pairs",
    "double_kills": "double kills",
    "double_allocations": "given twice",
    "leaks": "leaks",
    "lost_vms": "lost VMs",
    "unresolved": "unresolved",
}


def figures(found: Figures) -> dict[str, Any]:
    """The published figures of some runs."""
    counted = {name: sum(found.rules[rule] for rule in rules) for name, rules in _RULES.items()}
    named = {rule for rules in _RULES.values() for rule in rules}
    return {
        **{name: getattr(found, name) for name in _FIGURES},
        "single_kills": found.injections - found.pairs_covered,
        "double_kills": found.pairs_covered,
        **counted,
        "dual_running_s": round(found.dual_running_s, 6),
        "needs_operator": found.needs_operator,
        "other_violations": sum(n for rule, n in found.rules.items() if rule not in named),
        "converge_mean_s": round(mean(found.converge_s), 4) if found.converge_s else None,
        "converge_p99_s": _p99(found.converge_s),
    }


def _p99(seconds: list[float]) -> float | None:
    if len(seconds) < 2:
        return round(seconds[0], 4) if seconds else None
    return round(quantiles(seconds, n=100, method="inclusive")[-1], 4)


def whole(
    found: Mapping[tuple[str, str, str], Figures], uncovered: Iterable[str], **facts: Any
) -> dict[str, Any]:
    """``found`` is by operation, part and store."""
    total = Figures()
    operations: dict[tuple[str, str], Figures] = {}
    for (operation, _, store), each in found.items():
        total.add(each)
        operations.setdefault((operation, store), Figures()).add(each)
    return {
        **figures(total),
        **facts,
        "uncovered": list(uncovered),
        "violations": total.broken,
        "operations": [
            {"operation": operation, "store": store, **figures(each)}
            for (operation, store), each in sorted(operations.items())
        ],
        "scenarios": [
            {"operation": operation, "part": part, "store": store, **figures(each)}
            for (operation, part, store), each in sorted(found.items())
        ],
    }


def write(report: Mapping[str, Any], path: Path) -> None:
    """As JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def lines(report: Mapping[str, Any]) -> Iterable[str]:
    """A table of operations, then the sums, then what is wrong."""
    yield f"{'operation':<24}{'store':<12}" + "".join(f"{name:>14}" for name in _COLUMNS.values())
    for each in report["operations"]:
        name = f"{each['operation']:<24}{each['store']:<12}"
        yield name + "".join(f"{each[column]:>14}" for column in _COLUMNS)
    yield ""
    for key, value in report.items():
        if not isinstance(value, list | dict):
            yield f"{key:<24}{value}"
    for name in report["uncovered"]:
        yield f"no kill point: {name}"
    for each in report["violations"][:50]:
        yield f"VIOLATION {each}"
    if len(report["violations"]) > 50:
        yield f"… and {len(report['violations']) - 50} more"

"""I11: the audit trail, played from its beginning, comes to what the store says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.checker.seen import Seen
from tests.checker.trail import replay
from tests.checker.violation import Violation


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Records that cannot follow on each other, and states that no record led to."""
    if "audit" not in seen.store.rows:
        return
    found = replay(sorted(seen.store.rows["audit"], key=lambda each: each["seq"]))
    for problem in found.problems:
        yield Violation("I11", "order", problem)
    told = {
        name: (each.state, each.host, each.running, each.generation)
        for name, each in found.vms.items()
    }
    kept = {
        row["name"]: (row["state"], row["host"], bool(row["running"]), row["generation"])
        for row in seen.store.vms.values()
        if row["deleted_at"] is None
    }
    yield from _compare("VM", told, kept)
    yield from _compare(
        "allocation",
        {
            key: (each.state, each.vm, each.host, each.gpu, each.device, each.units)
            for key, each in found.allocations.items()
            if each.state != "released"
        },
        {
            key: (r["state"], r["vm"], r["host"], r["gpu"], r["device"], tuple(r["slots"]))
            for key, r in seen.store.allocations.items()
        },
    )


def _compare(kind: str, told: dict[str, Any], kept: dict[str, Any]) -> Iterator[Violation]:
    for key in sorted({*told, *kept}):
        if told.get(key) != kept.get(key):
            what = f"{kind} {key}: the trail says {told.get(key)}, the store {kept.get(key)}"
            yield Violation("I11", kind, what)

"""I13: a pool's desktop that is ready has its VM and shares it with none; a session is one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.checker.seen import Seen
from tests.checker.violation import Violation

_HAVING = frozenset({"ready", "failed", "unknown", "shelved"})


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Each open desktop against its VM, and against the sessions that are open."""
    rows = [each for each in seen.store.rows.get("desktop", []) if each["closed_at"] is None]
    held = Counter(each["vm_id"] for each in rows if each["vm_id"])
    on = Counter(
        each["desktop"]
        for each in seen.store.rows.get("pool_session", [])
        if each["closed_at"] is None
    )
    for row in rows:
        name = row["name"]
        vm = seen.store.vms.get(row["vm_id"]) if row["vm_id"] else None
        alive = vm is not None and vm["deleted_at"] is None and vm["name"] == name
        if row["state"] == "ready" and not alive:
            yield Violation("I13", "desktop", f"{name} is ready, and has no VM")
        if row["state"] in _HAVING and row["session"] and not alive:
            yield Violation("I13", "taken", f"{name} is somebody's, and its VM is gone")
        if held[row["vm_id"]] > 1:
            yield Violation("I13", "twice", f"{name} shares its VM with another desktop")
        if on[row["id"]] != bool(row["session"]):
            yield Violation("I13", "session", f"{name} has {on[row['id']]} open sessions")

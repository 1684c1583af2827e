"""I12: an entry of the queue that runs has its VM, and one that waits holds nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.checker.seen import Row, Seen
from tests.checker.violation import Violation

_RUNS = frozenset({"active", "migrating", "reserved"})


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Each open entry against the VM that it names."""
    entries = [each for each in seen.store.rows.get("queue", []) if each["closed_at"] is None]
    for name, times in sorted(Counter(each["name"] for each in entries).items()):
        if times > 1:
            yield Violation("I12", "twice", f"{name} is in the queue {times} times")
    for entry in entries:
        vm = seen.store.vms.get(entry["vm_id"]) if entry["vm_id"] else None
        found = _state(vm)
        wanted = _RUNS if entry["state"] == "running" else {"shelved"} if vm else {"no VM"}
        if found not in wanted:
            text = f"{entry['name']} is {entry['state']}, and its VM is {found}"
            yield Violation("I12", "queue", text)


def _state(vm: Row | None) -> str:
    if vm is None or vm["deleted_at"] is not None:
        return "no VM"
    return str(vm["state"])

"""I4: every operation ends: done, undone, or handed to an operator with a reason."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.seen import Row, Seen
from tests.checker.violation import Violation

ENDED = frozenset({"done", "undone", "partly", "failed"})
TASK_ENDED = frozenset({"done", "undone", "failed"})
# Ended because somebody wanted something newer: nothing for an operator to do.
OVERTAKEN = (
    "superseded by a newer layout",
    "superseded by a newer change",
    "the VM was deleted meanwhile",
)


def violations(seen: Seen, _: Seen | None) -> Iterator[Violation]:
    """Operations, tasks and steps that have not ended, or ended in contradiction."""
    for row in seen.store.rows["operation"]:
        if row["state"] not in ENDED:
            yield _open("operation", f"{row['kind']} {row['id'][:8]} is {row['state']}")
        elif row["ended_at"] is None:
            yield _open("end", f"{row['kind']} {row['id'][:8]} is {row['state']} without a time")
    for task in seen.store.tasks.values():
        yield from _task(task)


def _task(task: Row) -> Iterator[Violation]:
    name = f"{task['verb']} {task['vm']} of {task['operation'][:8]}"
    states = {step["state"] for step in task["steps"]}
    if task["state"] not in TASK_ENDED:
        yield _open("task", f"{name} is {task['state']}")
    if task["state"] == "done" and states - {"done"} and task["verb"] != "migrate":
        yield _open("steps", f"{name} is done, its steps are {sorted(states)}")
    if task["state"] == "undone" and states - {"planned", "undone"}:
        yield _open("steps", f"{name} is undone, its steps are {sorted(states)}")
    if task["state"] == "failed" and not task["error"]:
        yield _open("reason", f"{name} failed without a reason")


def needs_operator(seen: Seen) -> list[str]:
    """Tasks that ended as failed, and not because somebody overtook them."""
    return [
        f"{task['verb']} {task['vm']}: {task['error']}"
        for task in seen.store.tasks.values()
        if task["state"] == "failed" and task["error"] not in OVERTAKEN
    ]


def _open(kind: str, what: str) -> Violation:
    return Violation("I4", kind, what)

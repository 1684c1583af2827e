"""On what terms a VM waits for room and runs. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PRIORITIES: Mapping[str, int] = {"high": 100, "normal": 0, "low": -100}
"""Classes of priority by name; any other number is allowed, more comes first."""


def priority_name(priority: int) -> str:
    """The class of that number, or the number."""
    names = {number: name for name, number in PRIORITIES.items()}
    return names.get(priority, str(priority))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a VM waits and runs.

    ``spot``: it may be stopped for others, and waits again then. ``runtime_s`` is the longest it
    runs once started, None where nobody knows. ``after`` are VMs that must have ended before it
    starts. VMs with the same ``together`` start in one turn or not at all. ``await_hosts``: it may
    wait even where no host of the fleet could ever hold it, for hosts to come.
    """

    priority: int = PRIORITIES["normal"]
    spot: bool = False
    runtime_s: float | None = None
    after: tuple[str, ...] = ()
    together: str = ""
    await_hosts: bool = False


def terms_text(terms: Terms) -> str:
    """``high, spot, at most 4 h, after a, b``; ``normal`` alone where nothing else is said."""
    words = [priority_name(terms.priority)]
    if terms.spot:
        words.append("spot")
    if terms.runtime_s is not None:
        words.append(f"at most {duration_text(terms.runtime_s)}")
    if terms.after:
        words.append(f"after {', '.join(terms.after)}")
    if terms.together:
        words.append(f"together with {terms.together}")
    if terms.await_hosts:
        words.append("for new hosts")
    return ", ".join(words)


def duration_text(seconds: float) -> str:
    """5400 → ``90 min``; 14400 → ``4 h``."""
    units = ((86_400, "d"), (3_600, "h"), (60, "min"))
    whole = round(seconds)
    size, unit = next((each for each in units if whole and whole % each[0] == 0), (1, "s"))
    return f"{whole // size} {unit}"

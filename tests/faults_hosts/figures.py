"""From the controllers' log and the list of faults to figures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults_hosts.record import CONTROLLER, Injected, Record

Event = dict[str, Any]
# A fault may still be felt for this long: a packet that was lost comes again, a call is cut.
FELT_S = 45.0
DOUBLE, LOST = ("I1", "I7"), "I6 lost"


@dataclass
class Command:
    """One operator's command, until it was done; ``end`` None: it never was."""

    kind: str
    vm: str
    host: str
    begin: float
    end: float | None = None
    errors: list[tuple[float, str]] = field(default_factory=list)


def commands(events: Iterable[Event]) -> tuple[list[Command], list[Command]]:
    """Those of operators who saw their end, or still wait for it; those that their controller took
    with it when it ended.
    """
    found: dict[str, Command] = {}
    gone: list[Command] = []
    for event in events:
        if event["what"] == "up":  # another life: what the one before had begun is resumed
            gone += [each for each in found.values() if each.end is None]
            found = {key: each for key, each in found.items() if each.end is not None}
        elif event["what"] == "begin":
            found[event["op"]] = Command(event["kind"], event["vm"], event["host"], event["at"])
        elif event["what"] == "failed":
            found[event["op"]].errors.append((event["at"], event["error"]))
        elif event["what"] == "end":
            found[event["op"]].end = event["at"]
    return list(found.values()), gone


def figures(events: Sequence[Event], record: Record) -> dict[str, Any]:
    """Everything of one trial. Times in seconds."""
    done, cut = commands(events)
    told = [error for each in (*done, *cut) for _, error in each.errors]
    resumed = list(resumptions(events, record.faults))
    return {
        "operations": len(done) + len(cut),
        "operations_by_kind": dict(Counter(each.kind for each in done)),
        "faults": len(record.faults),
        "faults_by_type": dict(Counter(each.fault for each in record.faults)),
        "double_allocations": _count(record.violations, DOUBLE),
        "leaks": _count(record.violations, ("I3",)),
        "lost_vms": _count(record.violations, (LOST,)),
        "violations": record.violations,
        "load": record.load,
        "unresolved": record.unresolved,
        "needs_operator": [
            each
            for each in record.needs_operator
            if not each.startswith(("start", "stop"))  # the same command again was done since
        ],
        "failed_tries": len(told),
        "failed_tries_by_code": dict(Counter(each.split(":")[0] for each in told)),
        "tracebacks": sorted({each for each in told if each.startswith("TRACEBACK")}),
        "failed_without_a_fault": _unexplained(done, record.faults),
        "converged_after_fault": {
            name: spread(times) for name, times in sorted(convergence(done, record.faults).items())
        },
        "converged_after_any_fault": spread(
            [each for times in convergence(done, record.faults).values() for each in times]
        ),
        "controller_kills": {
            "kills": sum(each.fault == CONTROLLER for each in record.faults),
            "commands_cut": len(cut),
            "operations_resumed": len(resumed),
            "ended_as": dict(Counter(state for state, _ in resumed)),
            "seconds": spread([seconds for _, seconds in resumed if seconds is not None]),
        },
        "isolation": isolation(done, record) | _plans(events),
    }


def convergence(done: Iterable[Command], faults: Sequence[Injected]) -> dict[str, list[float]]:
    """By fault: from its end to the end of each command that it had disturbed."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in done:
        fault = _blamed(each, faults)
        if fault is not None and each.end is not None:
            found[fault.fault].append(each.end - max(fault.end, each.begin))
    return found


def resumptions(
    events: Iterable[Event], faults: Iterable[Injected]
) -> Iterator[tuple[str, float | None]]:
    """Each operation that a kill left open: how it ended, and how long after the kill."""
    kills = [each.begin for each in faults if each.fault == CONTROLLER]
    lives = [-math.inf]
    open_: dict[str, float] = {}
    for event in events:
        if event["what"] == "up":
            lives.append(event["at"])
        elif event["what"] == "resume":
            killed = [kill for kill in kills if lives[-2] < kill < lives[-1]]
            open_[event["operation"]] = killed[-1] if killed else math.nan
        elif event["what"] == "resumed":
            seconds = event["at"] - open_.pop(event["operation"])
            if not math.isnan(seconds):
                yield event["state"], seconds
    yield from (("open", None) for _ in open_)


def isolation(done: Iterable[Command], record: Record) -> dict[str, Any]:
    """What commands on healthy hosts took in quiet windows, and while others hung."""
    took: dict[str, list[float]] = {"quiet": [], "hung": []}
    for each in done:
        if each.end is None or each.host in record.hung:
            continue
        for kind, begin, end in record.windows:
            if begin <= each.begin < end:
                took[kind].append(each.end - each.begin)
    quiet, hung = spread(took["quiet"]), spread(took["hung"])
    ratio = round(hung["p99"] / quiet["p99"], 2) if quiet["count"] and hung["count"] else None
    return {"hosts_hung": len(record.hung), "quiet": quiet, "hung": hung, "p99_ratio": ratio}


def _plans(events: Iterable[Event]) -> dict[str, Any]:
    """What a plan took that has to ask every host, hung ones included."""
    took: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["what"] == "planned":
            took[event["when"]].append(event["seconds"])
    return {"plan_for_any_host_s": {when: spread(times) for when, times in took.items()}}


def spread(times: Sequence[float]) -> dict[str, Any]:
    """Count, mean, median, 99th percentile (nearest rank) and the largest."""
    if not times:
        return {"count": 0}
    ranked = sorted(times)

    def rank(share: float) -> float:
        return round(ranked[math.ceil(share * len(ranked)) - 1], 2)

    mean = round(sum(ranked) / len(ranked), 2)
    return {"count": len(ranked), "mean": mean, "p50": rank(0.5), "p99": rank(0.99),
            "max": round(ranked[-1], 2)}  # fmt: skip


def _blamed(each: Command, faults: Sequence[Injected]) -> Injected | None:
    """The last fault that reached into a command and was felt by it."""
    end = each.end if each.end is not None else math.inf
    reaching = [
        fault
        for fault in faults
        if fault.host in {each.host, ""}
        and fault.fault != CONTROLLER
        and fault.begin < end
        and each.begin < fault.end + (FELT_S if each.errors else 0.0)
    ]
    if not reaching:
        return None
    fault = max(reaching, key=lambda found: found.end)
    return fault if each.errors or end > fault.end else None


def _unexplained(done: Iterable[Command], faults: Sequence[Injected]) -> list[str]:
    """Errors that no fault is near of."""
    return [
        f"{each.kind} {each.vm}: {error}"
        for each in done
        for _, error in each.errors[:1]
        if _blamed(each, faults) is None
    ]


def _count(violations: Iterable[str], rules: tuple[str, ...]) -> int:
    """Different ones: what is not made good is seen after every phase."""
    told = {each.partition(": ")[2] for each in violations}
    return sum(each.startswith(rules) for each in told)

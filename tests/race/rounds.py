"""A race: one process per client, forked once, over one store, and what came of it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable

from tests.race import ground
from tests.race.clients import Client, take_part
from tests.race.meeting import Meeting
from tests.race.seen import Report, Seen, summed
from vgpumgr.model.operation import Reservation

Kind = Callable[[str, int, Reservation, Meeting], Client]

# What a client's process inherits: there is no other way for a barrier.
_shared: list[Meeting] = []


def race(
    kind: Kind, url: str, *, clients: int, rounds: int, longest_s: float = float("inf")
) -> Report:
    """So many rounds, or as many as fit; raises what a client's process raised."""
    template = ground.prepare(url)
    # Forked from a process that has no threads, and everything imported.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, kind.__module__])
    meeting = Meeting(context, clients)
    meeting.generations = ground.first_generations(url, template)
    with context.Pool(clients, _join, (meeting,)) as pool:
        jobs = [(kind, url, each, template, rounds, longest_s) for each in range(clients)]
        began = time.monotonic()
        seen = pool.starmap(_client, jobs, chunksize=1)
        seconds = time.monotonic() - began
    report = summed(seen)
    return {
        "clients": clients,
        "rounds_wanted": rounds,
        "seconds": round(seconds, 1),
        "rounds_per_s": round(report["rounds"] / seconds, 2),
        **report,
    }


def _join(meeting: Meeting) -> None:
    _shared.append(meeting)


def _client(
    kind: Kind, url: str, number: int, template: Reservation, rounds: int, longest_s: float
) -> Seen:
    [meeting] = _shared
    client = kind(url, number, template, meeting)
    return take_part(client, meeting, leads=number == 0, rounds=rounds, longest_s=longest_s)

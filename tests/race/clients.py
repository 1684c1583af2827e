"""A client's process: in every round it wants the last slice, at the same moment as all others."""

from __future__ import annotations

import time
from typing import Protocol

from tests.race.meeting import Meeting
from tests.race.seen import Seen


class Client(Protocol):
    """How one asks, and gives back."""

    def ready(self, turn: int) -> None:
        """All that can be done before the start."""

    def attempt(self, turn: int) -> str:
        """The answer: WON, or what a loser is told."""

    def give_back(self, turn: int, seen: Seen) -> None:
        """As the winner: look whether one is alone, then let go."""

    def close(self) -> None:
        """Let go of the store."""


def take_part(
    client: Client, meeting: Meeting, *, leads: bool, rounds: int, longest_s: float
) -> Seen:
    """Every round of one client; the one that ``leads`` ends the race when it lasts too long."""
    seen = Seen()
    until = time.monotonic() + longest_s
    before_s = time.process_time()
    try:
        for turn in range(rounds):
            client.ready(turn)
            if leads:
                meeting.over = time.monotonic() > until
            meeting.gather()
            if meeting.over:
                break
            began = time.perf_counter()
            answer = client.attempt(turn)
            won = seen.answered(answer, time.perf_counter() - began)
            meeting.gather()
            if won:
                client.give_back(turn, seen)
        seen.cpu_s = time.process_time() - before_s
        meeting.gather()
    except BaseException:
        meeting.leave()
        raise
    finally:
        client.close()
    return seen

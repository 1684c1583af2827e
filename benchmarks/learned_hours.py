"""A fortnight of logins to one pool: fixed spares against spares by learned hours; JSON out.

``python -m benchmarks.learned_hours [--users 60] [--seed 42] [--json OUT]``: on weekdays most users
come within half an hour of 8:30, some after lunch, few at weekends, each day drawn anew. A desktop
takes three minutes. The product's controller decides each minute, and when a user comes or leaves.
In the first week nothing is known yet; the second is counted: who waited and for how long, and what
it cost: desktops that were ready for nobody, in desktop hours.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
from bisect import insort
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.poolworld import World, pool
from vgpumgr.engine.desktops.learned_hours import expected_logins
from vgpumgr.engine.desktops.pool_decision import decide_pool
from vgpumgr.model.desktop import DesktopRequest, DesktopState

ZONE = "Europe/Berlin"
# A Monday.
BEGIN = datetime(2026, 3, 16, tzinfo=ZoneInfo(ZONE))
DAYS, MAKE_S, GONE_S, TURN_S = 14, 180.0, 20.0, 60.0
# Spares, and whether hours are learned.
ARMS = {"spare 2": (2, False), "spare 10": (10, False), "spare 2, learned": (2, True)}


def visits(users: int, seed: int) -> Iterator[tuple[float, float]]:
    """When each session begins, and how long it lasts, in seconds."""
    chance = random.Random(seed)
    for day in range(DAYS):
        midnight = BEGIN + timedelta(days=day)
        weekend = midnight.weekday() >= 5
        for _ in range(users // 12 if weekend else users):
            early = chance.random() < 0.8
            hour = chance.gauss(8.5, 0.25) if early else chance.gauss(13.0, 0.5)
            stay = chance.gauss(8.0 if early else 4.0, 0.5)
            yield (midnight + timedelta(hours=hour)).timestamp(), 3600.0 * max(0.5, stay)


class Fortnight:
    """One arm: a pool, its users, and what was measured in the second week."""

    def __init__(self, users: int, spare: int, *, learned: bool) -> None:
        spec = pool(0, spare, users + 10, zone=ZONE, learned_hours=learned)
        self.world = World(spec, room=10_000, now=BEGIN.timestamp())
        self.learned = learned
        self.logins: list[float] = []
        self.waits: list[float] = []
        self.idle_s = 0.0
        self._queue: list[tuple[float, int, str, str]] = []
        self._numbers = count()

    def play(self, users: int, seed: int) -> dict[str, Any]:
        """The figures of the second week."""
        lasting = {}
        for number, (at, stay) in enumerate(visits(users, seed)):
            lasting[f"user-{number}"] = stay
            self._later(at, "come", f"user-{number}")
        end = (BEGIN + timedelta(days=DAYS)).timestamp()
        self._later(self.world.now, "turn", "")
        while self._queue and self._queue[0][0] < end:
            at, _, what, name = heapq.heappop(self._queue)
            self._pass_time(at)
            match what:
                case "come":
                    insort(self.logins, at)
                    groups = frozenset({"staff"})
                    self.world.asks[name] = DesktopRequest(user=name, since=at, groups=groups)
                case "leave":
                    self._leave(name)
                case "made":
                    self._made(name)
                case "gone":
                    self.world.desktops.pop(name, None)
                case "turn":
                    self._later(at + TURN_S, "turn", "")
            self._decide(lasting)
        return self._figures()

    def _later(self, at: float, what: str, name: str) -> None:
        heapq.heappush(self._queue, (at, next(self._numbers), what, name))

    def _pass_time(self, at: float) -> None:
        if self._counts(self.world.now):
            free = sum(each.free for each in self.world.desktops.values())
            self.idle_s += free * (at - self.world.now)
        self.world.now = at

    def _counts(self, at: float) -> bool:
        return at >= (BEGIN + timedelta(days=7)).timestamp()

    def _leave(self, user: str) -> None:
        for name, each in self.world.desktops.items():
            if each.session is not None and each.session.user == user:
                self.world.log_off(name)
                return

    def _made(self, name: str) -> None:
        there = self.world.desktops.get(name)
        is_due = there is not None and self.world.now - there.since >= MAKE_S
        if is_due and there is not None and there.state is DesktopState.CREATING:
            self.world.set(name, state=DesktopState.READY, since=self.world.now)

    def _decide(self, lasting: dict[str, float]) -> None:
        world = self.world
        if self.learned:
            spec = world.spec
            world.expected = expected_logins(self.logins, world.now, spec.prewarm_s, spec.zone)
        for action in decide_pool(world.view()).actions:
            since = world.asks[action.user].since if action.user in world.asks else world.now
            world.carry_out(action)
            there = world.desktops[action.desktop]
            if there.state is DesktopState.CREATING:
                self._later(world.now + MAKE_S, "made", there.name)
            elif there.state is DesktopState.LEAVING:
                self._later(world.now + GONE_S, "gone", there.name)
            elif action.user:
                self._later(world.now + lasting[action.user], "leave", action.user)
                if self._counts(since):
                    self.waits.append(world.now - since)

    def _figures(self) -> dict[str, Any]:
        waited = sorted(each for each in self.waits if each > 0)
        return {
            "logins": len(self.waits),
            "waited": len(waited),
            "longest_wait_s": round(max(waited, default=0.0), 1),
            "mean_wait_s": round(statistics.mean(self.waits), 1),
            "idle_desktop_hours": round(self.idle_s / 3600.0, 1),
        }


def compared(users: int, seed: int) -> dict[str, dict[str, Any]]:
    """The figures of each arm, on the same users."""
    return {
        name: Fortnight(users, spare, learned=learned).play(users, seed)
        for name, (spare, learned) in ARMS.items()
    }


def main() -> int:
    """The command line."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--users", type=int, default=60)
    asked.add_argument("--seed", type=int, default=42)
    asked.add_argument("--json", type=Path, help="file for the result")
    given = asked.parse_args()
    found = {"benchmark": "learned_hours", "users": given.users, "seed": given.seed}
    text = json.dumps({**found, "arms": compared(given.users, given.seed)}, indent=2) + "\n"
    print(text, end="")
    if given.json:
        given.json.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""First come, first served, without spares: a desktop is made when a user asks, deleted at logoff.

A user who finds no room waits in line. A new image is used for what is made from then on, without a
canary; somebody takes it back a quarter of an hour after the first desktop failed on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from benchmarks.vdi.estate import FENCED_S, GONE_S, Clock, Hosts
from benchmarks.vdi.figures import Figures
from benchmarks.vdi.scene import BAD
from vgpumgr.model.pool import PoolSpec

NOTICED_S = 900.0


@dataclass
class _Pool:
    spec: PoolSpec
    image: str
    line: list[str] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    """Desktops by user."""
    running: int = 0
    failed: bool = False


class FirstCome:
    """No controller: what users do makes and deletes desktops."""

    name = "baseline"

    def __init__(
        self, pools: Iterable[PoolSpec], clock: Clock, hosts: Hosts, figures: Figures
    ) -> None:
        self._pools = {spec.name: _Pool(spec, spec.image) for spec in pools}
        self._clock, self._hosts, self._figures = clock, hosts, figures
        self._numbers = count()
        self._on: set[str] = set()
        """Users who have their desktop."""

    def ask(self, user: str, pool: str) -> None:
        """See ``Arm``."""
        at = self._pools[pool]
        self._figures.asked(user, self._clock.now)
        if user in self._on:
            self._figures.ended(user, self._clock.now)
            return
        at.line.append(user)
        self._note_waiting(at)
        self._serve()

    def leave(self, user: str, pool: str) -> None:
        """See ``Arm``: the desktop waits for its user."""

    def log_off(self, user: str, pool: str) -> None:
        """See ``Arm``."""
        at = self._pools[pool]
        if user in at.line:
            at.line.remove(user)
        self._figures.ended(user, self._clock.now)
        if user in self._on:
            self._on.discard(user)
            self._figures.use(-self._hosts.held_units(at.made[user]), self._clock.now)
            self._delete(at, user)

    def push(self, pool: str) -> None:
        """See ``Arm``."""
        self._pools[pool].image = f"{pool}@{BAD}"

    def lose(self, host: str) -> None:
        """See ``Arm``."""
        gone = set(self._hosts.lose(host))
        asking: list[tuple[str, str]] = []
        for pool, at in self._pools.items():
            for user, name in [each for each in at.made.items() if each[1] in gone]:
                if user in self._on:
                    self._figures.use(-self._hosts.held_units(name), self._clock.now)
                self._on.discard(user)
                del at.made[user]
                asking.append((user, pool))
        self._clock.call(self._clock.now + FENCED_S, lambda: self._fenced(gone, asking))

    def _fenced(self, gone: set[str], asking: list[tuple[str, str]]) -> None:
        for name in sorted(gone):
            self._hosts.leave(name)
        for user, pool in asking:
            self._pools[pool].running -= 1
            self.ask(user, pool)

    def _serve(self) -> None:
        """Whoever is first in a pool's line, as long as there is room."""
        for at in self._pools.values():
            while at.line and at.running < at.spec.size.max:
                name = f"{at.spec.name}-{next(self._numbers)}"
                if not self._hosts.place(name, at.spec.desktop):
                    break
                self._begin(at, at.line.pop(0), name)
            self._note_waiting(at)

    def _begin(self, at: _Pool, user: str, name: str) -> None:
        at.made[user] = name
        at.running += 1
        self._figures.bad += at.image.endswith(BAD)
        takes, well = self._hosts.takes_s(at.image)
        self._clock.call(self._clock.now + takes, lambda: self._up(at, user, name, well=well))

    def _up(self, at: _Pool, user: str, name: str, *, well: bool) -> None:
        if at.made.get(user) != name:
            return
        if not well:
            self._give_up(at, user)
        elif self._figures.waits(user):
            self._on.add(user)
            self._figures.use(self._hosts.held_units(name), self._clock.now)
            self._figures.ended(user, self._clock.now)
        else:
            self._delete(at, user)

    def _give_up(self, at: _Pool, user: str) -> None:
        if not at.failed:
            at.failed = True
            self._clock.call(self._clock.now + NOTICED_S, lambda: self._take_back(at))
        self._delete(at, user)
        if self._figures.waits(user):
            at.line.append(user)
            self._serve()

    def _take_back(self, at: _Pool) -> None:
        at.image = at.spec.image

    def _delete(self, at: _Pool, user: str) -> None:
        name = at.made.pop(user)
        self._clock.call(self._clock.now + GONE_S, lambda: self._gone(at, name))

    def _gone(self, at: _Pool, name: str) -> None:
        self._hosts.leave(name)
        at.running -= 1
        self._serve()

    def _note_waiting(self, at: _Pool) -> None:
        waiting = [*at.line, *(user for user in at.made if user not in self._on)]
        if waiting and at.running < at.spec.size.max and self._hosts.startable(at.spec.desktop):
            for user in waiting:
                self._figures.could_start(user)

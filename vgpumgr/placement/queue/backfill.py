"""Backfill: room reserved for the first VMs that do not fit, and what may start beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import RoomReservation, RunningVm, WaitingVm
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.queue.queue_accounts import ScratchFleet


@dataclass(frozen=True, slots=True)
class BackfillReservation:
    """On ``host`` there is room for ``vms`` of ``owner``, all of them, once ``ends`` have left."""

    owner: str
    vms: tuple[VmSpec, ...]
    host: str
    by: float | None
    ends: tuple[str, ...]

    def reservations(self) -> Iterator[RoomReservation]:
        """One per VM."""
        for vm in self.vms:
            yield RoomReservation(name=vm.name, host=self.host, by=self.by, ends=self.ends)


class BackfillReservations:
    """At most one promise per host, and at most ``heads`` owners."""

    def __init__(self, ground: ScratchFleet, heads: int) -> None:
        self._ground = ground
        self._heads = heads
        self._hopeless: set[str] = set()
        self.of_host: dict[str, BackfillReservation] = {}
        self._possible: dict[object, dict[str, bool]] = {}

    def of(self, owner: str) -> list[BackfillReservation]:
        """What was promised to one owner."""
        return [each for each in self.of_host.values() if each.owner == owner]

    @property
    def owners(self) -> list[str]:
        """To whom something is promised, who was promised first first."""
        return list(dict.fromkeys(promise.owner for promise in self.of_host.values()))

    def may_have(self, owner: str) -> bool:
        """Whether anything can be promised to it: there could ever be room."""
        return self._heads > 0 and owner not in self._hopeless

    @property
    def full(self) -> bool:
        """Whether somebody has to give way first."""
        return len(self.owners) >= self._heads

    def give(self, owner: str, vms: Sequence[VmSpec], now: float) -> None:
        """Keep room for all of these, where it is there the soonest as far as anybody knows; for
        none of them where one finds no host without a promise to others.
        """
        for vm in vms:
            promise = self._soonest_for(owner, vm, now)
            if promise is None:
                self.drop(owner)
                return
            self.of_host[promise.host] = promise

    def restore(
        self, owner: str, vms: Sequence[VmSpec], host: str, ends: Sequence[str], now: float
    ) -> None:
        """A promise from before, if it still holds; those of ``ends`` that have left are gone."""
        if host not in self._ground.on or host in self.of_host:
            return
        on = self._ground.on[host]
        there = tuple(name for name in ends if name in on)
        promise = self._promise(owner, tuple(vms), host, there, now)
        if self._holds(promise):
            self.of_host[host] = promise

    def drop(self, owner: str) -> bool:
        """Nothing is promised to it any more; whether anything was."""
        hosts = [promise.host for promise in self.of(owner)]
        for host in hosts:
            del self.of_host[host]
        return bool(hosts)

    def allows(self, placed: Placed, ends_by: float | None) -> bool:
        """Whether a VM may start there and every promise still holds."""
        promise = self.of_host.get(placed.host)
        if promise is None:
            return True
        if promise.by is not None and ends_by is not None and ends_by <= promise.by:
            return True
        return self._holds(promise, [placed])

    def joined(self, placed: Placed, owner: str) -> None:
        """One of ``owner`` has started there, as it was allowed to. Where the room is not there
        beside it, it is one more that has to leave first: it will in time.
        """
        promise = self.of_host.get(placed.host)
        if promise is None or promise.owner == owner or self._holds(promise):
            return
        ends = (*promise.ends, placed.request.name)
        self.of_host[placed.host] = replace(promise, ends=ends)

    def renew(self, owner: str, now: float) -> None:
        """Promises whose hosts have changed: room may be there sooner, never later."""
        for old in self.of(owner):
            on = self._ground.on[old.host]
            ends = tuple(name for name in old.ends if name in on)
            if ends != old.ends:
                self.of_host[old.host] = self._promise(old.owner, old.vms, old.host, ends, now)

    def _soonest_for(self, owner: str, vm: VmSpec, now: float) -> BackfillReservation | None:
        """The soonest host for one more of ``owner``, beside what it has been promised there."""
        best: tuple[float, BackfillReservation] | None = None
        never = True
        for host in self._ground.hosts:
            there = self.of_host.get(host)
            own = there.vms if there and there.owner == owner else ()
            vms = (*own, vm)
            if not self._could(vms, host):
                continue
            never = False
            if there and not own:
                continue
            ends = self._ends(vms, host, now, best[0] if best else math.inf)
            if ends is not None:
                when = self._when(host, ends, now)
                best = when, self._promise(owner, vms, host, ends, now)
        if never:
            self._hopeless.add(owner)
        return best[1] if best else None

    def _could(self, vms: tuple[VmSpec, ...], host: str) -> bool:
        """Whether these fit if everyone left. Worked out once for alike requests."""
        known = self._possible.setdefault(tuple(map(self._ground.demand, vms)), {})
        if host not in known:
            known[host] = self._ground.fit(vms, host, list(self._ground.on[host])) is not None
        return known[host]

    def _ends(
        self, vms: Sequence[VmSpec], host: str, now: float, before: float
    ) -> tuple[str, ...] | None:
        """The fewest of those that end first with which gone these fit, ``before`` that time."""
        on = self._ground.on[host]
        expected = {name: _expected(each, now) for name, each in on.items()}
        order = sorted(on, key=lambda name: (expected[name], name))
        if before <= now:
            return None
        order = [name for name in order if expected[name] < before]
        if self._ground.fit(vms, host, order) is None:
            return None
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if self._ground.fit(vms, host, order[:middle]) is not None:
                high = middle
            else:
                low = middle + 1
        return tuple(order[:low])

    def _when(self, host: str, ends: Sequence[str], now: float) -> float:
        on = self._ground.on[host]
        return max((_expected(on[name], now) for name in ends), default=now)

    def _promise(
        self, owner: str, vms: tuple[VmSpec, ...], host: str, ends: tuple[str, ...], now: float
    ) -> BackfillReservation:
        return BackfillReservation(owner, vms, host, _by(self._ground.on[host], ends, now), ends)

    def _holds(self, promise: BackfillReservation, come: Sequence[Placed] = ()) -> bool:
        found = self._ground.fit(promise.vms, promise.host, promise.ends, come)
        return found is not None


def _by(on: Mapping[str, RunningVm], ends: Sequence[str], now: float) -> float | None:
    """When the last of them will have ended; None where one of them may run for ever.

    One that is over its bound is expected any moment.
    """
    bounds = [on[name].ends_by for name in ends]
    known = [bound for bound in bounds if bound is not None]
    return max([now, *known]) if len(known) == len(bounds) else None


def _expected(each: RunningVm, now: float) -> float:
    """When it ends: by its bound; else it is as likely as not to go on for as long again."""
    if each.ends_by is not None:
        return max(each.ends_by, now)
    return now + max(now - each.since, 1.0)


class BackfillHeads:
    """Who was promised room keeps it, unless somebody of a higher class needs it."""

    def __init__(self, promises: BackfillReservations) -> None:
        self._promises = promises
        self._denied: set[str] = set()

    def new_turn(self) -> None:
        """Who found no host without a promise may try once more."""
        self._denied.clear()

    def consider(
        self,
        owner: str,
        unit: Sequence[WaitingVm],
        rank: Callable[[str], float],
        now: float,
    ) -> bool:
        """Promise room to who does not fit, if it may have any; whether another lost its own.

        ``rank`` tells an owner's class of priority by now.
        """
        owners = self._promises.owners
        if owner in owners or owner in self._denied or not self._promises.may_have(owner):
            return False
        lost = self._promises.full and self._displace(owners, owner, rank)
        if not self._promises.full:
            self._promises.give(owner, [each.vm for each in unit], now)
            if owner not in self._promises.owners:
                self._denied.add(owner)
        return lost

    def _displace(self, owners: Sequence[str], owner: str, rank: Callable[[str], float]) -> bool:
        lowest = min(owners, key=rank)
        return rank(lowest) < rank(owner) and self._promises.drop(lowest)

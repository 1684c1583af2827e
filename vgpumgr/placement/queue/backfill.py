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
    """Capacity reserved for an owner: ``vms`` fit together on ``host`` once the VMs ``ends`` have
    left.

    ``by`` is when that is at the latest; None where a runtime is not known.
    """

    owner: str
    vms: tuple[VmSpec, ...]
    host: str
    by: float | None
    ends: tuple[str, ...]

    def by_vm(self) -> Iterator[RoomReservation]:
        """The reservation as one record per VM."""
        for vm in self.vms:
            yield RoomReservation(name=vm.name, host=self.host, by=self.by, ends=self.ends)


class BackfillReservations:
    """All reserved capacity: at most one reservation per host, and at most ``heads`` owners."""

    def __init__(self, scratch: ScratchFleet, heads: int) -> None:
        self._scratch = scratch
        self._heads = heads
        self._hopeless: set[str] = set()
        self.of_host: dict[str, BackfillReservation] = {}
        self._possible: dict[object, dict[str, bool]] = {}

    def of(self, owner: str) -> list[BackfillReservation]:
        """The reservations of one owner."""
        return [each for each in self.of_host.values() if each.owner == owner]

    @property
    def owners(self) -> list[str]:
        """The owners of reservations, in the order in which capacity was reserved for them."""
        return list(dict.fromkeys(reservation.owner for reservation in self.of_host.values()))

    def may_have(self, owner: str) -> bool:
        """Whether capacity can be reserved for the owner: some host could ever have room."""
        return self._heads > 0 and owner not in self._hopeless

    @property
    def full(self) -> bool:
        """Whether another owner has to lose its reservation first."""
        return len(self.owners) >= self._heads

    def reserve(self, owner: str, vms: Sequence[VmSpec], now: float) -> None:
        """Reserve capacity for all of these VMs, on the hosts that have room the soonest as far as
        is known; for none of the VMs where one finds no host without a reservation of another
        owner.
        """
        for vm in vms:
            reservation = self._soonest_for(owner, vm, now)
            if reservation is None:
                self.drop(owner)
                return
            self.of_host[reservation.host] = reservation

    def restore(
        self, owner: str, vms: Sequence[VmSpec], host: str, ends: Sequence[str], now: float
    ) -> None:
        """Take over an earlier reservation, if it still holds; VMs of ``ends`` that have left are
        struck.
        """
        if host not in self._scratch.on or host in self.of_host:
            return
        on = self._scratch.on[host]
        there = tuple(name for name in ends if name in on)
        reservation = self._reservation(owner, tuple(vms), host, there, now)
        if self._holds(reservation):
            self.of_host[host] = reservation

    def drop(self, owner: str) -> bool:
        """Give up all reservations of the owner; whether there were any."""
        hosts = [reservation.host for reservation in self.of(owner)]
        for host in hosts:
            del self.of_host[host]
        return bool(hosts)

    def allows(self, placed: Placed, ends_by: float | None) -> bool:
        """Whether a VM may start there with every reservation still true."""
        reservation = self.of_host.get(placed.host)
        if reservation is None:
            return True
        if reservation.by is not None and ends_by is not None and ends_by <= reservation.by:
            return True
        return self._holds(reservation, [placed])

    def started_beside(self, placed: Placed, owner: str) -> None:
        """A VM of ``owner`` was allowed to start on a host with a reservation of another owner.

        Where the reserved VMs no longer fit beside it, it counts as one more VM that leaves first.
        """
        reservation = self.of_host.get(placed.host)
        if reservation is None or reservation.owner == owner or self._holds(reservation):
            return
        ends = (*reservation.ends, placed.request.name)
        self.of_host[placed.host] = replace(reservation, ends=ends)

    def renew(self, owner: str, now: float) -> None:
        """Work out the owner's reservations again where VMs have left: room comes sooner, never
        later.
        """
        for old in self.of(owner):
            on = self._scratch.on[old.host]
            ends = tuple(name for name in old.ends if name in on)
            if ends != old.ends:
                self.of_host[old.host] = self._reservation(old.owner, old.vms, old.host, ends, now)

    def _soonest_for(self, owner: str, vm: VmSpec, now: float) -> BackfillReservation | None:
        """The host with room the soonest for one more VM of ``owner``, beside its reservation
        there.
        """
        best: tuple[float, BackfillReservation] | None = None
        never = True
        for host in self._scratch.hosts:
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
                best = when, self._reservation(owner, vms, host, ends, now)
        if never:
            self._hopeless.add(owner)
        return best[1] if best else None

    def _could(self, vms: tuple[VmSpec, ...], host: str) -> bool:
        """Whether these fit if everyone left. Worked out once for equal requests."""
        known = self._possible.setdefault(tuple(map(self._scratch.demand, vms)), {})
        if host not in known:
            known[host] = self._scratch.fit(vms, host, list(self._scratch.on[host])) is not None
        return known[host]

    def _ends(
        self, vms: Sequence[VmSpec], host: str, now: float, before: float
    ) -> tuple[str, ...] | None:
        """The fewest VMs, those that end first, after whose end these fit; all end before
        ``before``.
        """
        on = self._scratch.on[host]
        expected = {name: _expected(each, now) for name, each in on.items()}
        order = sorted(on, key=lambda name: (expected[name], name))
        if before <= now:
            return None
        order = [name for name in order if expected[name] < before]
        if self._scratch.fit(vms, host, order) is None:
            return None
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if self._scratch.fit(vms, host, order[:middle]) is not None:
                high = middle
            else:
                low = middle + 1
        return tuple(order[:low])

    def _when(self, host: str, ends: Sequence[str], now: float) -> float:
        on = self._scratch.on[host]
        return max((_expected(on[name], now) for name in ends), default=now)

    def _reservation(
        self, owner: str, vms: tuple[VmSpec, ...], host: str, ends: tuple[str, ...], now: float
    ) -> BackfillReservation:
        return BackfillReservation(owner, vms, host, _by(self._scratch.on[host], ends, now), ends)

    def _holds(self, reservation: BackfillReservation, come: Sequence[Placed] = ()) -> bool:
        found = self._scratch.fit(reservation.vms, reservation.host, reservation.ends, come)
        return found is not None


def _by(on: Mapping[str, RunningVm], ends: Sequence[str], now: float) -> float | None:
    """When the last of these VMs has ended; None where the runtime of one is not known.

    A VM that is over its runtime is expected to end any moment.
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
    """Which VMs get reserved capacity: it is kept, unless a VM of a higher class needs it."""

    def __init__(self, backfill: BackfillReservations) -> None:
        self._backfill = backfill
        self._denied: set[str] = set()

    def new_turn(self) -> None:
        """Owners for which no host was free of reservations may try once more."""
        self._denied.clear()

    def consider(
        self,
        owner: str,
        unit: Sequence[WaitingVm],
        rank: Callable[[str], float],
        now: float,
    ) -> bool:
        """Reserve capacity for an owner that does not fit, if it may have any.

        Returns whether another owner lost its reservation. ``rank`` tells an owner's class by now.
        """
        owners = self._backfill.owners
        if owner in owners or owner in self._denied or not self._backfill.may_have(owner):
            return False
        lost = self._backfill.full and self._displace(owners, owner, rank)
        if not self._backfill.full:
            self._backfill.reserve(owner, [each.vm for each in unit], now)
            if owner not in self._backfill.owners:
                self._denied.add(owner)
        return lost

    def _displace(self, owners: Sequence[str], owner: str, rank: Callable[[str], float]) -> bool:
        lowest = min(owners, key=rank)
        return rank(lowest) < rank(owner) and self._backfill.drop(lowest)

"""The order of waiting VMs: dependencies, priority and age, fair share among tenants."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.queue import QueueRules, WaitingVm
from vgpumgr.model.vm import PRIORITIES
from vgpumgr.placement.queue.tenant_shares import TenantShares


def cycle(after: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """VMs that wait for each other, each for the next and the last for the first; () if none do.

    ``after`` says for each VM which others must have ended; names it does not map wait for none.
    """
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        # Each is waited for by the next one, and the last is the first again.
        return tuple(reversed(error.args[1][1:]))
    return ()


class Dependencies:
    """Which VMs have ended, and which wait for others to end. A name that is not known has not
    ended.
    """

    def __init__(self, ended: Collection[str]) -> None:
        self._ended = set(ended)
        self._after: dict[str, tuple[str, ...]] = {}
        self._others: dict[str, list[str]] = {}

    def add(self, name: str, after: tuple[str, ...]) -> None:
        """It waits, and starts when all of ``after`` have ended."""
        self._ended.discard(name)
        self._after[name] = after
        for other in after:
            self._others.setdefault(other, []).append(name)

    def open(self, name: str) -> tuple[str, ...]:
        """The VMs that this one waits for and that have not ended."""
        return tuple(each for each in self._after.get(name, ()) if each not in self._ended)

    def begun(self, name: str) -> None:
        """It runs."""
        self._ended.discard(name)

    def ended(self, name: str) -> list[str]:
        """The VM has ended; the VMs that wait for it."""
        self._ended.add(name)
        return self._others.pop(name, [])

    def cancelled(self, name: str) -> None:
        """It will not end, as it never starts."""
        self._after.pop(name, None)


Seats = NDArray[np.int64]

_CLASS = PRIORITIES["high"] - PRIORITIES["normal"]
_ENDLESS = 1e18
_FIELDS = [
    ("since", "f8"), ("runtime", "f8"), ("length", "f8"), ("size", "f8"), ("priority", "f8"),
    ("kind", "i8"), ("live", "?"), ("ready", "?"),
]  # fmt: skip


class WaitingLine:
    """The waiting VMs as rows of numbers; a VM's seat is its row, reused when the VM has left.

    Requests of one *kind* are interchangeable but for their runtimes. A kind is *closed* from a
    runtime on when a VM with that runtime was just refused: a VM of the kind that runs as long or
    longer is not tried again before something is freed.
    """

    def __init__(self, rules: QueueRules) -> None:
        self._rules = rules
        self._rows = np.zeros(64, np.dtype(_FIELDS))
        self._free = list(range(len(self._rows)))[::-1]
        self._kinds: dict[Hashable, int] = {}
        self._closed = np.full(64, np.inf)
        self.seat: dict[str, int] = {}
        self.waiting: dict[int, WaitingVm] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, each: WaitingVm, kind: Hashable, size: float) -> int:
        """Give a seat. ``size`` is the share of the fleet that it takes."""
        if not self._free:
            count = len(self._rows)
            self._rows = np.concatenate((self._rows, np.zeros(count, self._rows.dtype)))
            self._free = list(range(count, 2 * count))[::-1]
        seat = self._free.pop()
        runtime = each.terms.runtime_s
        length = self._rules.unknown_s if runtime is None else max(runtime, 1.0)
        self._rows[seat] = (
            each.since, _ENDLESS if runtime is None else runtime, length, size,
            each.terms.priority, self._kind(kind), True, True,
        )  # fmt: skip
        self.seat[each.vm.name], self.waiting[seat] = seat, each
        return seat

    def remove(self, name: str) -> WaitingVm:
        """The seat is free again."""
        seat = self.seat.pop(name)
        self._rows[seat]["live"] = False
        self._free.append(seat)
        return self.waiting.pop(seat)

    def set_ready(self, seat: int, *, ready: bool) -> None:
        """Whether nothing but room and quotas keeps the VM from starting."""
        self._rows[seat]["ready"] = ready

    def close(self, seat: int, *, whatever: bool) -> None:
        """A VM of this kind was refused; ``whatever``: with any runtime it would have been."""
        row = self._rows[seat]
        runtime = -1.0 if whatever else float(row["runtime"])
        self._closed[row["kind"]] = min(self._closed[row["kind"]], runtime)

    def open(self) -> None:
        """Something was freed: every VM may be tried again."""
        self._closed[:] = np.inf

    def is_open(self, seat: int) -> bool:
        """Whether it is worth asking."""
        row = self._rows[seat]
        return bool(row["runtime"] < self._closed[row["kind"]])

    def rank(self, seat: int, now: float) -> float:
        """The VM's class: its priority, one class more for each ``aging_s`` that it has waited, and
        less than one more for being overdue (priorities are whole numbers).
        """
        return float(self._class(self._rows[[seat]], now)[0])

    def served(self, now: float) -> list[tuple[float, int]]:
        """(class, seat) of the VMs worth trying, in the order in which they are served.

        By class (``rank``), then by response ratio over size: (waited + runtime) ÷ (runtime x
        size). The shortest and smallest go first, and no VM starves.
        """
        rows = self._rows
        worth = rows["runtime"] < self._closed[rows["kind"]]
        return self._ordered(np.flatnonzero(rows["live"] & rows["ready"] & worth), now)

    def everybody(self, now: float) -> list[int]:
        """All seats in the same order; VMs that may not start yet come last."""
        rows = self._rows
        ready = self._ordered(np.flatnonzero(rows["live"] & rows["ready"]), now)
        held = self._ordered(np.flatnonzero(rows["live"] & ~rows["ready"]), now)
        return [seat for _, seat in (*ready, *held)]

    def _ordered(self, seats: Seats, now: float) -> list[tuple[float, int]]:
        found = self._rows[seats]
        classes = self._class(found, now)
        waited = np.maximum(now - found["since"], 0.0)
        ratio = (waited + found["length"]) / (found["length"] * found["size"])
        order = np.lexsort((seats, found["since"], -ratio, -classes))
        return list(zip(classes[order].tolist(), seats[order].tolist(), strict=True))

    def _class(self, found: NDArray[np.void], now: float) -> NDArray[np.float64]:
        waited = np.maximum(now - found["since"], 0.0)
        aged, overdue = waited // self._rules.aging_s, waited // self._rules.overdue_s
        classes: NDArray[np.float64] = found["priority"] + _CLASS * aged + overdue / (overdue + 1)
        return classes

    def _kind(self, kind: Hashable) -> int:
        number = self._kinds.setdefault(kind, len(self._kinds))
        if number >= len(self._closed):
            self._closed = np.concatenate((self._closed, np.full(len(self._closed), np.inf)))
        return number


def in_turn(line: WaitingLine, tenants: TenantShares, now: float) -> Iterator[int]:
    """Seats worth trying, in order. What a tenant gets on the way counts for the tenant that is
    next.
    """
    for _, group in groupby(line.served(now), key=lambda each: each[0]):
        seats: dict[str, list[int]] = {}
        for _, seat in group:
            seats.setdefault(line.waiting[seat].vm.tenant, []).append(seat)
        if len(seats) == 1:
            yield from next(iter(seats.values()))
            continue
        waiting = {tenant: iter(found) for tenant, found in seats.items()}
        while waiting:
            tenant = min(waiting, key=lambda name: (tenants.share(name), name))
            found = next(waiting[tenant], None)
            if found is None:
                del waiting[tenant]
            else:
                yield found

"""One turn of the queue, from nothing but values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from vgpumgr.model.queue import (
    QueueEvent,
    Reservation,
    Rules,
    Running,
    Start,
    Turn,
    Wait,
    Waiting,
    Why,
)
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.queue import Queue
from vgpumgr.placement.queue.words import reservations as kept
from vgpumgr.placement.queue.words import waits


def turn(
    placer: Placer,
    waiting: Sequence[Waiting],
    running: Sequence[Running],
    quotas: Sequence[Quota],
    now: float,
    *,
    rules: Rules | None = None,
    ended: Collection[str] = (),
    held: Mapping[str, Amount] | None = None,
    reservations: Sequence[Reservation] = (),
) -> Turn:
    """Decide who starts now, and say of everybody else why not.

    ``placer`` is the supply with every VM of ``running`` committed to it, and nothing else. When
    this returns it has what was started too, and no longer what is preempted. Names are unique
    among ``waiting`` and ``running``. ``ended`` names VMs that came to their end: one that is
    neither there nor waiting nor running is not known to have ended, and who is ``after`` it
    waits. ``held`` is what tenants hold beside ``running`` (VMs that no turn may stop or wait
    for), by tenant. ``reservations`` are those of the turn before, so that a host once chosen
    stays; without them they are computed again. The same input gives the same turn.
    """
    queue = Queue(placer, quotas, rules=rules, held=held, ended=ended)
    for runner in running:
        queue.run(runner)
    for waiter in sorted(waiting, key=lambda each: (each.since, each.vm.name)):
        queue.add(waiter)
    queue.adopt(reservations, now)
    starts = tuple(queue.turn(now))
    waiting_still = tuple(waits(queue, now))
    return Turn(
        starts=starts,
        waits=waiting_still,
        reservations=tuple(kept(queue)),
        events=tuple(_events(starts, waiting_still, reservations, now)),
    )


def _events(
    starts: Sequence[Start], waits: Sequence[Wait], before: Sequence[Reservation], now: float
) -> Iterator[QueueEvent]:
    for start in starts:
        name = start.waiting.vm.name
        waited = max(0.0, now - start.waiting.since)
        text = f"{name} starts on {start.placed.host} after waiting {waited:.0f} s"
        yield QueueEvent(code="started", vm=name, text=text)
        for victim in start.preempts:
            yield QueueEvent(code="preempted", vm=victim, text=f"{victim} is preempted by {name}")
    known = {(each.name, each.host) for each in before}
    for wait in waits:
        name, room = wait.waiting.vm.name, wait.reservation
        if room is not None and (name, room.host) not in known:
            yield QueueEvent(
                code="reserved", vm=name, text=f"capacity is reserved on {room.host}: {name}"
            )
        if wait.why is Why.NEVER:
            yield QueueEvent(code="never", vm=name, text=f"{name} can never start: {wait.text}")

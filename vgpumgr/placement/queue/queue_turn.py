"""One turn of the queue as a pure function: VMs to start, VMs to stop, why others wait."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from vgpumgr.model.formats import span_words
from vgpumgr.model.queue import (
    QueueDecision,
    QueueEvent,
    QueueRules,
    QueueStart,
    RoomReservation,
    RunningVm,
    Wait,
    WaitingVm,
    WaitReason,
)
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.queue.vm_starter import StartRefusal
from vgpumgr.placement.queue.waiting_queue import WaitingQueue


def waits(queue: WaitingQueue, now: float) -> Iterator[Wait]:
    """Everybody who waits, who is next first; those that are after others come last."""
    kept = {each.name: each for each in reserved_room(queue)}
    running = queue.books.ground.running
    for position, seat in enumerate(queue.line.everybody(now), start=1):
        each = queue.line.who[seat]
        refusal = _after(queue, each, running) or queue.why(each)
        reservation = kept.get(each.vm.name)
        if reservation is not None and refusal.room:
            refusal = _with_room_kept(refusal, reservation, now)
        yield Wait(
            waiting=each,
            position=position,
            why=refusal.why,
            text=refusal.text,
            reservation=reservation,
            facts=refusal.facts,
        )


def reserved_room(queue: WaitingQueue) -> Iterator[RoomReservation]:
    """Room that is kept, VM by VM."""
    for promise in queue.promises.of_host.values():
        yield from promise.reservations()


def _after(
    queue: WaitingQueue, each: WaitingVm, running: Mapping[str, object]
) -> StartRefusal | None:
    open_names = queue.held_back(each.vm.name)
    if not open_names:
        return None
    states = [f"{name} ({_state(queue, name, running)})" for name in open_names]
    return StartRefusal(
        WaitReason.AFTER, f"after {', '.join(states)}", {"after": ", ".join(open_names)}
    )


def _state(queue: WaitingQueue, name: str, running: Mapping[str, object]) -> str:
    if name in running:
        return "running"
    return "waiting" if name in queue.line.seat else "not known to have ended"


def _with_room_kept(refusal: StartRefusal, kept: RoomReservation, now: float) -> StartRefusal:
    ends = _listed(kept.ends)
    text = f"{refusal.text}; capacity is reserved on {kept.host}"
    if kept.by is None:
        text += f", available when {ends} ended" if ends else ""
        return StartRefusal(refusal.why, text, {**refusal.facts, "host": kept.host})
    text += f", available in {span_words(kept.by - now)} at the latest" + (
        f", when {ends} ended" if ends else ""
    )
    return StartRefusal(refusal.why, text, {**refusal.facts, "host": kept.host, "by": kept.by})


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return f"{names[0]} has" if names else ""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} have"


def turn(
    placer: Placer,
    waiting: Sequence[WaitingVm],
    running: Sequence[RunningVm],
    quotas: Sequence[Quota],
    now: float,
    *,
    rules: QueueRules | None = None,
    ended: Collection[str] = (),
    held: Mapping[str, Amount] | None = None,
    reservations: Sequence[RoomReservation] = (),
) -> QueueDecision:
    """Decide who starts now, and say of everybody else why not.

    ``placer`` is the supply with every VM of ``running`` committed to it, and nothing else. When
    this returns it has what was started too, and no longer what is preempted. Names are unique
    among ``waiting`` and ``running``. ``ended`` names VMs that came to their end: one that is
    neither there nor waiting nor running is not known to have ended, and who is ``after`` it
    waits. ``held`` is what tenants hold beside ``running`` (VMs that no turn may stop or wait
    for), by tenant. ``reservations`` are those of the turn before, so that a host once chosen
    stays; without them they are computed again. The same input gives the same turn.
    """
    queue = WaitingQueue(placer, quotas, rules=rules, held=held, ended=ended)
    for runner in running:
        queue.run(runner)
    for waiter in sorted(waiting, key=lambda each: (each.since, each.vm.name)):
        queue.add(waiter)
    queue.adopt(reservations, now)
    starts = tuple(queue.turn(now))
    waiting_still = tuple(waits(queue, now))
    return QueueDecision(
        starts=starts,
        waits=waiting_still,
        reservations=tuple(reserved_room(queue)),
        events=tuple(_events(starts, waiting_still, reservations, now)),
    )


def _events(
    starts: Sequence[QueueStart],
    waits: Sequence[Wait],
    before: Sequence[RoomReservation],
    now: float,
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
        if wait.why is WaitReason.NEVER:
            yield QueueEvent(code="never", vm=name, text=f"{name} can never start: {wait.text}")

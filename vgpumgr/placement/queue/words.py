"""Why VMs wait, in one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpumgr.model.queue import Reservation, Wait, Waiting, Why
from vgpumgr.model.words import span_words
from vgpumgr.placement.queue.queue import Queue
from vgpumgr.placement.queue.refusal import Refusal


def waits(queue: Queue, now: float) -> Iterator[Wait]:
    """Everybody who waits, who is next first; those that are after others come last."""
    kept = {each.name: each for each in reservations(queue)}
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


def reservations(queue: Queue) -> Iterator[Reservation]:
    """Room that is kept, VM by VM."""
    for promise in queue.promises.of_host.values():
        yield from promise.reservations()


def _after(queue: Queue, each: Waiting, running: Mapping[str, object]) -> Refusal | None:
    open_names = queue.held_back(each.vm.name)
    if not open_names:
        return None
    states = [f"{name} ({_state(queue, name, running)})" for name in open_names]
    return Refusal(Why.AFTER, f"after {', '.join(states)}", {"after": ", ".join(open_names)})


def _state(queue: Queue, name: str, running: Mapping[str, object]) -> str:
    if name in running:
        return "running"
    return "waiting" if name in queue.line.seat else "not known to have ended"


def _with_room_kept(refusal: Refusal, kept: Reservation, now: float) -> Refusal:
    ends = _listed(kept.ends)
    text = f"{refusal.text}; capacity is reserved on {kept.host}"
    if kept.by is None:
        text += f", available when {ends} ended" if ends else ""
        return Refusal(refusal.why, text, {**refusal.facts, "host": kept.host})
    text += f", available in {span_words(kept.by - now)} at the latest" + (
        f", when {ends} ended" if ends else ""
    )
    return Refusal(refusal.why, text, {**refusal.facts, "host": kept.host, "by": kept.by})


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return f"{names[0]} has" if names else ""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} have"

"""What a turn of the queue decides, by what was seen last or by a fresh look."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain

from vgpumgr.engine.booking import Bookings, booked_desktops
from vgpumgr.engine.planning.preflight import absent
from vgpumgr.engine.queue.deciding import decide
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.placement import Fleet, Placed
from vgpumgr.model.queue import Reservation, Turn, Wait, Why
from vgpumgr.model.queued import QueueEntry, QueueState
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement.placer import Placer

# May an entry (by id) be started now?
Ready = Callable[[str], bool]


def looked_at(
    session: Session, ready: Ready, kept: Sequence[Reservation]
) -> tuple[LedgerView, Turn]:
    """The decision by a fresh look at the hosts it is about; nothing where it changes with it."""
    first = decided(session, session.view(), ready, kept)
    hosts = {each.placed.host for each in first.starts}
    if not hosts:
        return session.view(), first
    observed = session.refresh(hosts)
    view = session.view()
    again = decided(session, view, ready, kept)
    starting = [each.placed for each in again.starts]
    if missing := absent(starting, view, session.hosts, session.lanes):
        view = replace(view, absent=missing)
        again = decided(session, view, ready, kept)
    fresh = tuple(each for each in again.starts if each.placed.host in observed.facts)
    return view, replace(again, starts=fresh)


def decided(session: Session, view: LedgerView, ready: Ready, kept: Sequence[Reservation]) -> Turn:
    """What a turn would do by this reading of the ledger; ``kept`` is as for ``turn``."""
    queue = tuple(each for each in view.queue if each.state is QueueState.RUNNING or ready(each.id))
    view = replace(view, queue=queue)
    now = session.clock.now()

    def placer(fleet: Fleet) -> Placer:
        if session.policy is not PlacementPolicy.LEAST_FRAGMENTATION:
            return Placer(fleet, session.policy)
        found = session.expected.outlook(session.ledger, now, fleet)
        return Placer(fleet, session.policy, mix=found.mix, plan=found.plan)

    booked = booked_desktops(session.ledger, now)
    ended, bookings = _have_ended(session, queue), Bookings(session.ledger, now)
    held: list[Wait] = []
    while True:
        found = decide(view, ended, placer, now, kept, booked)
        late = _outdoing(bookings, view, found)
        if not late:
            return _with(found, held)
        held += late
        names = {each.waiting.vm.name for each in late}
        view = replace(view, queue=tuple(each for each in view.queue if each.name not in names))


def _outdoing(bookings: Bookings, view: LedgerView, found: Turn) -> list[Wait]:
    """The first of those that start and would leave a booking without its desktops: it would still
    run then, as far as anybody knows.
    """
    if not bookings.outdone_by(view, [each.placed for each in found.starts]):
        return []
    begun: list[Placed] = []
    for start in found.starts:
        outdone = bookings.outdone_by(view, [*begun, start.placed])
        if outdone:
            it = outdone[0].booking
            text = f"its capacity is reserved for booking {it.id} ({it.count} × {it.profile})"
            return [Wait(waiting=start.waiting, position=1, why=Why.HELD_FOR_OTHERS, text=text)]
        begun.append(start.placed)
    return []


def _with(found: Turn, held: Sequence[Wait]) -> Turn:
    """Those that were held back, among those that wait."""
    waits = (replace(each, position=n) for n, each in enumerate((*held, *found.waits), 1))
    return replace(found, waits=tuple(waits)) if held else found


def _have_ended(session: Session, queue: Collection[QueueEntry]) -> frozenset[str]:
    """Of the VMs that others wait for: those whose last stay in the queue came to its end."""
    names = frozenset(chain.from_iterable(each.terms.after for each in queue))
    if not names:
        return frozenset()
    last = {each.name: each for each in sorted(session.ledger.queue(names), key=_closed)}
    return frozenset(n for n, each in last.items() if each.state is QueueState.ENDED and n in names)


def _closed(entry: QueueEntry) -> tuple[bool, float]:
    """Open ones last."""
    return entry.closed_at is None, entry.closed_at or 0.0

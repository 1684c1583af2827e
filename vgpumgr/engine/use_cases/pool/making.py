"""Desktops' VMs made: where they fit, reserved together with their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.engine.booking import placing_beside
from vgpumgr.engine.planning.plan import describe
from vgpumgr.engine.planning.preflight import absent
from vgpumgr.engine.planning.quotas import within_quotas
from vgpumgr.engine.planning.refusal import no_placement
from vgpumgr.engine.pooling import desktop_spec
from vgpumgr.engine.reserving.local_move import closed
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.supply import build_fleet
from vgpumgr.engine.use_cases import apply
from vgpumgr.engine.use_cases.pool.reading import Reading
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.plan import Action, ActionKind, Plan
from vgpumgr.model.pool import Desktop, DesktopRecord, DesktopState, Do, PoolRecord
from vgpumgr.model.vm import VmSpec

Rows = Sequence[DesktopRecord]
Refused = list[tuple[DesktopRecord, VgpumgrError]]


def fit(session: Session, rows: Rows) -> tuple[Rows, Refused]:
    """Those that there is room for, and why not for the others.

    The last look may show what was given back since: nobody is refused by it alone.
    """
    if not rows:
        return (), []
    refused: Refused = []
    view = session.view()
    sound = [row for row in rows if not _unsound(session, view, row, refused)]
    if not sound:
        return (), refused
    decided = _decided(session, view, sound)
    if any(isinstance(each, NotPlaced) for each in decided):
        session.refresh_all()
        decided = _decided(session, session.view(), sound)
    pairs = list(zip(sound, decided, strict=True))
    refused += [(row, no_placement([it])) for row, it in pairs if isinstance(it, NotPlaced)]
    return [row for row, it in pairs if isinstance(it, Placed)], refused


def refusal(session: Session, reading: Reading, pool: PoolRecord) -> str:
    """Why no desktop of it can be made now, by what was seen last; empty where one can."""
    row = DesktopRecord(
        id="",
        pool=pool.id,
        desktop=Desktop(
            name=pool.name, state=DesktopState.CREATING, image=pool.image, since=reading.now
        ),
    )
    try:
        decided = _decided(session, reading.view, [row])
    except VgpumgrError as error:
        return str(error)
    misfits = [each for each in decided if isinstance(each, NotPlaced)]
    return no_placement(misfits).why if misfits else ""


def _unsound(session: Session, view: LedgerView, row: DesktopRecord, refused: Refused) -> bool:
    """Whether its image is one that nothing is made from any more."""
    try:
        _specs(session, view, [row])
    except VgpumgrError as error:
        refused.append((row, error))
        return True
    return False


def make(session: Session, rows: Rows) -> Outcome:
    """Placed anew by a fresh look at the hosts that were chosen; all of them, or NoPlacement."""
    session.refresh({each.host for each in _placed(session, session.view(), rows)})
    view = session.view()
    placed = _placed(session, view, rows)
    if missing := absent(placed, view, session.hosts, session.lanes):
        view = replace(view, absent=missing)
        placed = _placed(session, view, rows)
    actions = tuple(map(_creation, placed))
    making = [replace(each, doing=Do.CREATE) for each in rows]
    return apply.carry_out(session, Plan(actions=actions), view, making)


def _decided(session: Session, view: LedgerView, rows: Rows) -> list[Decision]:
    theirs = {row.pool for row in rows}
    place = placing_beside(session.place, session.ledger, session.clock.now(), but=theirs)
    fleet, wanted = build_fleet(view), _specs(session, view, rows)
    emptied = {gpu for each in session.ledger.logoff_moves() for gpu in each.leaves}
    if emptied:  # a GPU that users leave one by one is not filled again, where there is another
        decided = within_quotas(view, place(closed(fleet, emptied), wanted))
        if all(isinstance(each, Placed) for each in decided):
            return decided
    return within_quotas(view, place(fleet, wanted))


def _specs(session: Session, view: LedgerView, rows: Rows) -> list[VmSpec]:
    pools = {each.id: each.spec for each in session.ledger.pools()}
    return [desktop_spec(pools[row.pool], row.name, row.desktop.image, view.images) for row in rows]


def _placed(session: Session, view: LedgerView, rows: Rows) -> list[Placed]:
    decided = _decided(session, view, rows)
    if misfits := [each for each in decided if isinstance(each, NotPlaced)]:
        raise no_placement(misfits)
    return [each for each in decided if isinstance(each, Placed)]


def _creation(placed: Placed) -> Action:
    return Action(
        kind=ActionKind.CREATE,
        vm=placed.request,
        host=placed.host,
        placed=placed,
        details=tuple(describe(placed)),
    )

"""GPUs partitioned as layouts declare; None as layouts: those that were applied last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from vgpumgr.engine import layouts
from vgpumgr.engine.pooling import named
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.use_cases.users_at_work import users_on
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.layout import LayoutPlan, LayoutSpec


def plan(session: Session, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, LedgerView]:
    """Probe the hosts that they are for, then say what applying them would do, with the reading it
    was made from.
    """
    needed = layouts.hosts_meant(session.view(), specs)
    warnings = session.refresh_all(needed) if needed else ()
    view = session.view()
    return layouts.plan(view, specs, warnings), view


def apply(session: Session, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, Outcome]:
    """Plan, refuse what stands in a guest's way (Conflict), execute, and look again.

    A change that was cut earlier is overtaken: a plan is made from any half-way state, and has in
    it what the cut one was to bring back.
    """

    def attempt() -> tuple[LayoutPlan, Outcome]:
        wanted, view = plan(session, specs)
        _refuse(session, wanted)
        leftovers.close_layouts(session.ledger, layouts.meant(view, specs), session.clock.now())
        start = layouts.reservation(wanted, view, specs, session.opening())
        return wanted, operations.begin(session, start)

    wanted, outcome = until_current(attempt)
    session.refresh({change.host for change in wanted.gpus})
    left = layouts.plan(session.view(), specs).gpus
    return wanted, outcome.less({(gpu.host, layouts.named(gpu)): gpu for gpu in left})


def _refuse(session: Session, wanted: LayoutPlan) -> None:
    """Conflict naming who stands in the way, and the users at work there."""
    try:
        layouts.refuse(wanted)
    except Conflict as error:
        words = (each.split() for change in wanted.gpus for each in change.holders)
        if users := users_on(session, frozenset(chain.from_iterable(words))):
            error.why = f"{error.why}; at work: {named(users)}"
        raise


def export(session: Session, hosts: Sequence[str]) -> tuple[LayoutSpec, ...]:
    """Probe, then write down how GPUs are partitioned."""
    session.refresh(hosts)
    return layouts.export(session.view(), hosts)

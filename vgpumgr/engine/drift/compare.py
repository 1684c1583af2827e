"""All comparisons of all hosts, sorted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vgpumgr.engine.drift import (
    claims,
    definitions,
    devices,
    domains,
    foreign,
    gpus,
    helper,
    reinstalled,
    unfinished,
    volumes,
)
from vgpumgr.engine.drift.seen import Seen
from vgpumgr.engine.drift.side import sides
from vgpumgr.engine.drift.work import Work
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.drift import Drift

_SUBJECTS = (
    domains.drifts,
    definitions.drifts,
    devices.drifts,
    claims.drifts,
    volumes.drifts,
    foreign.drifts,
    helper.drifts,
    reinstalled.drifts,
)


def compare(
    view: LedgerView, seen: Mapping[str, Seen], work: Work, at_rest: Collection[str] = ()
) -> tuple[Drift, ...]:
    """Every difference between the ledger and these hosts, by host, VM and subject.

    What could not be read differs in nothing. ``at_rest`` are hosts that nobody looks at: of those
    it is told what was begun there and cut.
    """
    found = [
        *(drift for side in sides(view, seen, work) for each in _SUBJECTS for drift in each(side)),
        *gpus.drifts(view, seen, work.touched),
        *unfinished.drifts(work, {*seen, *at_rest}),
    ]
    return tuple(sorted(found, key=_order))


def _order(drift: Drift) -> tuple[str, ...]:
    return (drift.host, drift.vm, drift.gpu, drift.kind, drift.subject, drift.text)

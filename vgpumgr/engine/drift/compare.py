"""All comparisons of all hosts, sorted."""

from __future__ import annotations

from collections.abc import Mapping

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


def compare(view: LedgerView, seen: Mapping[str, Seen], work: Work) -> tuple[Drift, ...]:
    """Every difference between the ledger and these hosts, by host, VM and subject.

    What could not be read differs in nothing.
    """
    found = [
        *(drift for side in sides(view, seen, work) for each in _SUBJECTS for drift in each(side)),
        *gpus.drifts(view, seen, work.touched),
        *unfinished.drifts(work, set(seen)),
    ]
    return tuple(sorted(found, key=_order))


def _order(drift: Drift) -> tuple[str, ...]:
    return (drift.host, drift.vm, drift.gpu, drift.kind, drift.subject, drift.text)

"""A host brought into the fleet: its row first, then the helper and our mark on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vgpumgr.engine.running import membership, operations
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.steps import InstallHelper, JoinFleet, Step
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.journal import ENROL, Reservation
from vgpumgr.model.ports import Ledger


def enrol(session: Session, record: HostRecord, *, install: bool) -> Outcome:
    """Enrol a host whose key is pinned; one that was begun to be enrolled so is resumed.

    Without ``install`` its helper is there, or it is only to be probed. Conflict where name or
    address is taken; a host that does not answer is not enrolled.
    """
    operations.finish_leftovers(session, {}, frozenset())  # those whose end alone was lost
    refuse_known(session.ledger, record)
    _refuse_other(session.ledger, record)
    before = membership.go_on(session, record.name)
    if before is not None:
        return before
    work = _steps(session, record, install=install)
    return operations.begin(session, _reservation(record, work, session.opening()))


def refuse_known(ledger: Ledger, record: HostRecord) -> None:
    """Conflict where the host, its name or its address is in the fleet already."""
    for known in _namesakes(ledger, record):
        if known.membership is Membership.MEMBER:
            raise Conflict(
                f"host {known.name} ({known.address}) is enrolled already",
                next=f"vgpumgr host show {known.name}",
            )


def _refuse_other(ledger: Ledger, record: HostRecord) -> None:
    """Conflict where it is on its way out, or in, but not as is wished now."""
    for known in _namesakes(ledger, record):
        if known.membership is not Membership.JOINING or not _is_so(known, record):
            raise membership.not_finished(ledger, known)


def _namesakes(ledger: Ledger, record: HostRecord) -> Iterator[HostRecord]:
    for known in ledger.hosts():
        if record.name == known.name or record.address == known.address:
            yield known


def _is_so(known: HostRecord, record: HostRecord) -> bool:
    """Is it to be enrolled as is wished now?"""
    return known == replace(
        record,
        membership=known.membership,
        generation=known.generation,
        facts=known.facts,
        observed_at=known.observed_at,
        last_error=known.last_error,
    )


def _steps(session: Session, record: HostRecord, *, install: bool) -> tuple[Step, ...]:
    """The host is asked first: nothing is written of one that does not answer."""
    host = session.hosts.open(record)
    if record.probe_only:
        host.probe()
        return ()
    found = host.installation.look()
    join = JoinFleet(fleet=session.ledger.fleet_id())
    return (InstallHelper(fresh=not found.helper), join) if install else (join,)


def _reservation(record: HostRecord, work: Sequence[Step], opening: Opening) -> Reservation:
    operation = opening.operation("host add")
    task = opening.host_task(operation, ENROL, work, record.name)
    return Reservation(operation=operation, tasks=(task,), joining=(record,))

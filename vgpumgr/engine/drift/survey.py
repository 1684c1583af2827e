"""Probe, look closer, compare: the whole of ``vgpumgr drift``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from vgpumgr.engine.drift.compare import compare
from vgpumgr.engine.drift.gpus import conflicting
from vgpumgr.engine.drift.looking import look
from vgpumgr.engine.drift.seen import Seen
from vgpumgr.engine.drift.work import Work, open_now, work
from vgpumgr.engine.observe import Observation
from vgpumgr.engine.session import Session
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.drift import DriftReport, NotRead
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.vm import VmRecord, VmState


def survey(session: Session, names: Collection[str] = ()) -> DriftReport:
    """Compare these hosts (all without names) with the ledger.

    The probe is kept as any other; nothing else is written, and nothing on a host.
    """
    return look_around(session, names).report


@dataclass(frozen=True, slots=True)
class Survey:
    """What a comparison found, and what it compared: the ledger's reading, and hosts by name."""

    report: DriftReport
    view: LedgerView
    seen: Mapping[str, Seen]


def look_around(session: Session, names: Collection[str] = ()) -> Survey:
    """As ``survey``, with all that it was found by."""
    since, open_before = session.clock.now(), open_now(session.ledger)
    before = session.ledger.hosts()
    observed = session.refresh(names)
    view = session.view()
    seen, failed = _look_closer(session, observed.facts, view)
    found = work(session.ledger, since, open_before)
    at_rest = () if names else [host.name for host in view.hosts if host.at_rest]
    told = _report(before, observed, view, seen, failed, found, at_rest)
    return Survey(told, view, seen)


def report(
    session: Session,
    before: Iterable[HostRecord],
    observed: Observation,
    view: LedgerView,
    find_work: Callable[[], Work],
) -> DriftReport:
    """The same after a probe that was kept already; ``before`` are the hosts before it.

    ``find_work`` is asked last: whatever was worked on meanwhile is not compared.
    """
    seen, failed = _look_closer(session, observed.facts, view)
    return _report(before, observed, view, seen, failed, find_work())


def _look_closer(
    session: Session, facts: Mapping[str, HostFacts], view: LedgerView
) -> tuple[dict[str, Seen], dict[str, Exception]]:
    records = {host.name: host for host in view.hosts}
    vms: dict[str, list[VmRecord]] = {}
    for vm in view.vms:
        if vm.state is VmState.ACTIVE:
            vms.setdefault(vm.host, []).append(vm)
    answers = session.lanes.run(
        {
            name: partial(look, session.hosts.open(records[name]), facts[name], vms.get(name, ()))
            for name in facts
            if name in records
        }
    )
    seen = {name: each for name, each in answers.items() if isinstance(each, Seen)}
    return seen, {name: each for name, each in answers.items() if isinstance(each, Exception)}


def _report(
    before: Iterable[HostRecord],
    observed: Observation,
    view: LedgerView,
    seen: Mapping[str, Seen],
    failed: Mapping[str, Exception],
    found: Work,
    at_rest: Collection[str] = (),
) -> DriftReport:
    conflicts = {h: e for h, e in observed.failed.items() if isinstance(e, Conflict)}
    silent = {h: e for h, e in observed.failed.items() if h not in conflicts}
    drifts = (
        *(conflicting(host, error) for host, error in sorted(conflicts.items())),
        *compare(view, seen, found, at_rest),
    )
    compared = [vm for vm in view.vms if vm.host in seen]
    return DriftReport(
        drifts=tuple(sorted(drifts, key=lambda drift: drift.host)),
        not_read=tuple(sorted(_not_read(seen, {**silent, **failed}), key=_order)),
        hosts=len(seen),
        vms=len([vm for vm in compared if vm.id not in found.touched]),
        skipped=tuple(vm.name for vm in compared if vm.id in {t.vm_id for t in found.busy}),
        rebooted=_rebooted(before, seen),
    )


def _order(part: NotRead) -> tuple[str, str]:
    return part.host, part.part


def _not_read(seen: Mapping[str, Seen], failed: Mapping[str, Exception]) -> Iterator[NotRead]:
    """Hosts that did not answer, and parts of those that did."""
    for host, error in failed.items():
        why = error.message if isinstance(error, VgpumgrError) else repr(error)
        yield NotRead(host=host, part="", why=why)
    for host, each in seen.items():
        for unknown in each.facts.unknown:
            yield NotRead(host=host, part=unknown.part, why=unknown.why)
        yield from each.not_read


def _rebooted(before: Iterable[HostRecord], seen: Mapping[str, Seen]) -> tuple[str, ...]:
    """Hosts that have booted since they were last looked at."""
    boots = {host.name: host.facts.boot_id for host in before if host.facts}
    return tuple(
        sorted(
            name
            for name, each in seen.items()
            if boots.get(name, each.facts.boot_id) != each.facts.boot_id
        )
    )

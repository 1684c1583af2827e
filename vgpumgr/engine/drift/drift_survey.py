"""`drift`: hosts probed, VMs of ours looked at closer, everything compared with the ledger."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from vgpumgr import domainxml
from vgpumgr.engine.drift import device_drift, domain_drift, foreign_drift, host_drift
from vgpumgr.engine.drift.host_comparison import (
    DomainDefinition,
    DomainReads,
    OperationsInProgress,
    compared_hosts,
    open_operations,
    operations_in_progress,
)
from vgpumgr.engine.drift.host_drift import conflicting
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.observation import Observation
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.domain import OFF, DomainFacts
from vgpumgr.model.drift import Drift, DriftReport, UnreadHost
from vgpumgr.model.errors import Conflict, DeadlineExceeded, HostUnreachable, VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord, VmState

_SUBJECTS = (
    domain_drift.domain_drifts,
    domain_drift.definition_drifts,
    device_drift.device_drifts,
    device_drift.claim_drifts,
    host_drift.volume_drifts,
    foreign_drift.foreign_drifts,
    host_drift.helper_drifts,
    host_drift.reinstallation_drifts,
)


def compare(
    view: LedgerView,
    seen: Mapping[str, DomainReads],
    work: OperationsInProgress,
    at_rest: Collection[str] = (),
) -> tuple[Drift, ...]:
    """Every difference between the ledger and these hosts, by host, VM and subject.

    Unread parts differ in nothing. Of hosts ``at_rest``, which are not probed, only interrupted
    operations are reported.
    """
    found = [
        *(
            drift
            for side in compared_hosts(view, seen, work)
            for each in _SUBJECTS
            for drift in each(side)
        ),
        *host_drift.gpu_drifts(view, seen, work.touched),
        *host_drift.operation_drifts(work, {*seen, *at_rest}),
    ]
    return tuple(sorted(found, key=_by_host_and_kind))


def _by_host_and_kind(drift: Drift) -> tuple[str, ...]:
    return (drift.host, drift.vm, drift.gpu, drift.kind, drift.subject, drift.text)


K = TypeVar("K")
T = TypeVar("T")


def look(host: Host, facts: HostFacts, vms: Sequence[VmRecord]) -> DomainReads:
    """One question per definition, running VM and volume; what fails is named as not read."""
    asked = _Asked(host.name)
    names = {vm.name for vm in vms}
    domains = [each for each in facts.domains if each.name in names and each.ownership]
    definitions = asked.all(
        {d.name: (f"the definition of {d.name}", partial(_defined, host, d)) for d in domains}
    )
    running = [d for d in domains if d.state not in OFF and d.name in definitions]
    devices = asked.all(
        {d.name: (f"the devices of {d.name}", partial(_devices, host, d)) for d in running}
    )
    active = {pool.name for pool in facts.pools if pool.active}
    volumes = [volume for vm in vms for volume in vm.every_volume if volume[0] in active]
    there = asked.all({v: (f"volume {v[0]}/{v[1]}", partial(_exists, host, *v)) for v in volumes})
    return DomainReads(
        facts=facts,
        definitions=definitions,
        running_devices=devices,
        volumes=there,
        not_read=tuple(asked.not_read),
    )


def _defined(host: Host, domain: DomainFacts) -> DomainDefinition | None:
    """A domain that runs and was undefined has no definition."""
    if not domain.persistent:
        return None
    xml = host.domains.xml(domain.name)
    return DomainDefinition(domainxml.parts(xml), domainxml.parse(xml).ownership)


def _devices(host: Host, domain: DomainFacts) -> Mapping[str, str]:
    return domainxml.parts(host.domains.live_xml(domain.name)).devices


def _exists(host: Host, pool: str, name: str) -> bool:
    return host.storage.look(pool, name) is not None


class _Asked:
    """Questions to one host; after the first without an answer no more are asked."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._gone: VgpumgrError | None = None
        self.not_read: list[UnreadHost] = []

    def all(self, questions: Mapping[K, tuple[str, Callable[[], T | None]]]) -> dict[K, T]:
        """The answers that there are, by key; each question with the part that it is about."""
        answers = {key: self._read(part, question) for key, (part, question) in questions.items()}
        return {key: answer for key, answer in answers.items() if answer is not None}

    def _read(self, part: str, question: Callable[[], T]) -> T | None:
        """The answer, or None after noting why there is none."""
        if self._gone is not None:
            self._miss(part, self._gone.message)
            return None
        try:
            return question()
        except (HostUnreachable, DeadlineExceeded) as error:
            self._gone = error
            self._miss(part, error.message)
        except VgpumgrError as error:
            self._miss(part, error.why or error.message)
        except ValueError as error:
            self._miss(part, str(error))
        return None

    def _miss(self, part: str, why: str) -> None:
        self.not_read.append(UnreadHost(host=self._host, part=part, why=why))


def survey(context: EngineContext, names: Collection[str] = ()) -> DriftReport:
    """Compare these hosts (all without names) with the ledger.

    The probe is kept as any other; nothing else is written, and nothing on a host.
    """
    return look_around(context, names).report


@dataclass(frozen=True, slots=True)
class DriftSurvey:
    """A comparison's result with its sources: the ledger's reading, and hosts by name."""

    report: DriftReport
    view: LedgerView
    seen: Mapping[str, DomainReads]


def look_around(context: EngineContext, names: Collection[str] = ()) -> DriftSurvey:
    """The survey with its sources."""
    since, open_before = context.clock.now(), open_operations(context.ledger)
    before = context.ledger.hosts()
    observed = context.refresh(names)
    view = context.view()
    seen, failed = _look_closer(context, observed.facts, view)
    found = operations_in_progress(context.ledger, since, open_before)
    at_rest = () if names else [host.name for host in view.hosts if host.at_rest]
    told = _report(before, observed, view, seen, failed, found, at_rest)
    return DriftSurvey(told, view, seen)


def report(
    context: EngineContext,
    before: Iterable[HostRecord],
    observed: Observation,
    view: LedgerView,
    find_work: Callable[[], OperationsInProgress],
) -> DriftReport:
    """The survey after a probe that was kept already; ``before`` are the hosts before it.

    ``find_work`` is asked last: things that were worked on meanwhile are not compared.
    """
    seen, failed = _look_closer(context, observed.facts, view)
    return _report(before, observed, view, seen, failed, find_work())


def _look_closer(
    context: EngineContext, facts: Mapping[str, HostFacts], view: LedgerView
) -> tuple[dict[str, DomainReads], dict[str, Exception]]:
    records = {host.name: host for host in view.hosts}
    vms: dict[str, list[VmRecord]] = {}
    for vm in view.vms:
        if vm.state is VmState.ACTIVE:
            vms.setdefault(vm.host, []).append(vm)
    answers = context.lanes.run(
        {
            name: partial(look, context.hosts.open(records[name]), facts[name], vms.get(name, ()))
            for name in facts
            if name in records
        }
    )
    seen = {name: each for name, each in answers.items() if isinstance(each, DomainReads)}
    return seen, {name: each for name, each in answers.items() if isinstance(each, Exception)}


def _report(
    before: Iterable[HostRecord],
    observed: Observation,
    view: LedgerView,
    seen: Mapping[str, DomainReads],
    failed: Mapping[str, Exception],
    found: OperationsInProgress,
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


def _order(part: UnreadHost) -> tuple[str, str]:
    return part.host, part.part


def _not_read(
    seen: Mapping[str, DomainReads], failed: Mapping[str, Exception]
) -> Iterator[UnreadHost]:
    """Hosts that did not answer, and unread parts of hosts that did."""
    for host, error in failed.items():
        why = error.message if isinstance(error, VgpumgrError) else repr(error)
        yield UnreadHost(host=host, part="", why=why)
    for host, each in seen.items():
        for unknown in each.facts.unknown:
            yield UnreadHost(host=host, part=unknown.part, why=unknown.why)
        yield from each.not_read


def _rebooted(before: Iterable[HostRecord], seen: Mapping[str, DomainReads]) -> tuple[str, ...]:
    """Hosts that have booted since they were last looked at."""
    boots = {host.name: host.facts.boot_id for host in before if host.facts}
    return tuple(
        sorted(
            name
            for name, each in seen.items()
            if boots.get(name, each.facts.boot_id) != each.facts.boot_id
        )
    )

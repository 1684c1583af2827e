"""Diagnosis for `doctor`: this machine, the ledger and the hosts, each finding with its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from vgpumgr import catalog, checks
from vgpumgr.app.api_findings import api_findings
from vgpumgr.app.composition import App, is_simulated
from vgpumgr.app.ledger_admin import exposed
from vgpumgr.app.stored_findings import backup_findings, notification_findings, secret_findings
from vgpumgr.app.webhooks.webhook_findings import webhook_findings
from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure
from vgpumgr.engine.hosts.host_membership import is_worked_on, not_finished
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import read_view
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.examination import CheckOutcome, Examination, Finding, HostSetup
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.health import HealthState
from vgpumgr.model.host import HostFacts, HostRecord, Membership, UnknownPart
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import VmState

_CLOCK = SystemClock()


def examination(app: App, record: HostRecord) -> Examination:
    """Probe the host and examine it.

    Where the installed helper does not start, one that travels with the call looks in its place.
    Raises HostUnreachable, DeadlineExceeded, HostKeyChanged, …
    """
    observation = app.engine.refresh([record.name])
    if record.name in observation.facts:
        host = app.hosts.open(record)
        return look(record, host, observation.facts[record.name])
    refused = observation.failed[record.name]
    if is_simulated(record) or record.probe_only:
        raise refused
    travelling = app.hosts.open(replace(record, probe_only=True))
    try:
        facts = travelling.probe()
    except VgpumgrError:
        raise refused from None
    return look(record, travelling, facts)


def look(record: HostRecord, host: Host, facts: HostFacts, clock: Clock = _CLOCK) -> Examination:
    """Examine a host that was just probed; a refusal is *unknown* in every part."""
    from vgpumgr.hosts.facts.examination_facts import examined
    from vgpumgr.hosts.helper.helper_launch import helper_version, sudo_rule

    before = clock.now()
    try:
        seen = examined(host.helper.call("examine", {}), record.name)
    except VgpumgrError as error:
        why = f"{error.message}: {error.why}" if error.why else error.message
        # A helper that is too old to examine has told its version in the probe.
        installed = None if record.probe_only else facts.versions.helper or None
        seen = HostSetup(installed=installed, unknown=(UnknownPart(part="examine", why=why),))
    after = clock.now()
    return Examination(
        record=record,
        facts=facts,
        seen=seen,
        helper_version=helper_version(),
        sudo_rule=sudo_rule(),
        clock_offset_s=None if seen.now is None else seen.now - (before + after) / 2,
        clock_within_s=(after - before) / 2,
    )


def examine_host(app: App, name: str) -> tuple[Finding, ...]:
    """Every check of one enrolled host. NotFound, HostUnreachable, … where there is no look."""
    record = app.ledger.host(name)
    return (*_membership(app, record), *checks.check_host(examination(app, record)))


def examine(app: App) -> tuple[Finding, ...]:
    """Every check, from this machine outwards."""
    try:
        hosts = app.ledger.hosts()
    except VgpumgrError as error:
        return (
            Finding(check="ledger", mark=CheckOutcome.BAD, text=error.message, next=error.next),
        )
    findings = [_ledger(app), *_exposed(app), *backup_findings(app), *api_findings(app.config)]
    findings += [*secret_findings(app), *_operations(app)]
    findings += webhook_findings(app.ledger, app.config)
    findings += notification_findings(app.ledger, app.config)
    if not hosts:
        findings.append(
            Finding(
                check="hosts",
                mark=CheckOutcome.BAD,
                text="no host is enrolled",
                next="vgpumgr host add NAME --address USER@HOST",
            )
        )
        return tuple(findings)
    findings += _hosts(app)
    findings += _gpus(app)
    findings += _fragmentation(app)
    findings += _layouts(app)
    findings += _vms(app)
    return tuple(findings)


def _ledger(app: App) -> Finding:
    frozen = app.ledger.frozen()
    if frozen is None:
        return Finding(check="ledger", mark=CheckOutcome.OK, text=app.config.ledger)
    text = f"frozen, nothing is allocated: {frozen.why}"
    return Finding(check="ledger", mark=CheckOutcome.BAD, text=text, next="vgpumgr store thaw")


def _exposed(app: App) -> Iterator[Finding]:
    """Ways that the file system leaves to other users of this machine."""
    for each in exposed(app.config):
        yield Finding(
            check="ledger", mark=CheckOutcome.BAD, text=f"{each.what} ({each.why})", next=each.next
        )


def _operations(app: App) -> Iterator[Finding]:
    open_ones = app.ledger.operations(open_only=True)
    for operation in open_ones:
        yield Finding(
            check="operations",
            mark=CheckOutcome.BAD,
            text=f"{operation.kind} {operation.id[:8]} is {operation.state}",
            next=f"vgpumgr operation resume {operation.id[:8]}   (or: undo)",
        )
    if not open_ones:
        yield Finding(check="operations", mark=CheckOutcome.OK, text="none is unfinished")


def _hosts(app: App) -> Iterator[Finding]:
    """Every host in brief: what is wrong with it, or one line."""
    observation = app.engine.refresh()
    records = {host.name: host for host in app.writable_ledger.hosts()}
    found = app.engine.lanes.run(
        {
            name: partial(_host, app, records[name], facts)
            for name, facts in observation.facts.items()
        }
    )
    for name, record in records.items():
        yield from _membership(app, record)
        fault = observation.failed.get(name) or found.get(name)
        if isinstance(fault, Exception):
            next = getattr(fault, "next", "") or f"vgpumgr --debug doctor {name}"
            yield Finding(check=f"host {name}", mark=CheckOutcome.BAD, text=str(fault), next=next)
        elif fault is not None:
            yield from fault


def _fragmentation(app: App) -> Iterator[Finding]:
    """A hint where moves could win room back."""
    fleet = build_fleet(read_view(app.ledger))
    now = app.engine.clock.now()
    gauge = FragmentationMeasure(fleet, app.engine.expected, app.ledger, now).gauge()
    if gauge.share > app.config.defrag_threshold:
        text = f"{gauge.share:.0%} of the free GPU memory is unusable for {gauge.mix}"
        yield Finding(
            check="fragmentation", mark=CheckOutcome.WARN, text=text, next="vgpumgr defrag plan"
        )


def _membership(app: App, host: HostRecord) -> Iterator[Finding]:
    """The finding of a host that is half in the fleet; a warning while an operation works on it."""
    if host.membership is not Membership.MEMBER:
        half = not_finished(app.ledger, host)
        mark = CheckOutcome.WARN if is_worked_on(app.ledger, host.name) else CheckOutcome.BAD
        yield Finding(check=f"host {host.name}", mark=mark, text=str(half), next=half.next)


def _host(app: App, host: HostRecord, facts: HostFacts) -> tuple[Finding, ...]:
    check = f"host {host.name}"
    findings = checks.check_host(look(host, app.hosts.open(host), facts))
    unread = tuple(
        Finding(
            check=check, mark=CheckOutcome.UNKNOWN, text=f"could not read {part.part}: {part.why}"
        )
        for part in facts.unknown
    )
    bad = tuple(replace(each, check=check) for each in findings if each.mark is CheckOutcome.BAD)
    return (*unread, *bad) or (
        Finding(check=check, mark=CheckOutcome.OK, text=_well(facts) + _also(host.name, findings)),
    )


def _well(facts: HostFacts) -> str:
    kvm = "KVM" if facts.kvm else "no KVM: domains run under TCG"
    return f"libvirt {facts.versions.libvirt}, {counted(len(facts.gpus), 'GPU')}, {kvm}"


def _also(name: str, findings: tuple[Finding, ...]) -> str:
    """``; 2 warnings: vgpumgr doctor h1``."""
    warnings = sum(each.mark is CheckOutcome.WARN for each in findings)
    words = "1 warning" if warnings == 1 else f"{warnings} warnings"
    return f"; {words}: vgpumgr doctor {name}" if warnings else ""


def _gpus(app: App) -> Iterator[Finding]:
    for gpu in app.writable_ledger.gpus():
        if gpu.state is not GpuState.HEALTHY:
            yield Finding(
                check=f"gpu {gpu.id}",
                mark=CheckOutcome.BAD,
                text=f"{gpu.facts.model} {gpu.facts.device} on {gpu.host} is {gpu.state}",
                next=f"vgpumgr gpu show {gpu.id}",
            )
        if gpu.facts.unfit:
            detail = f": {gpu.facts.health_detail}" if gpu.facts.health_detail else ""
            yield Finding(
                check=f"gpu {gpu.id}",
                mark=CheckOutcome.BAD,
                text=f"{gpu.facts.model} {gpu.facts.device} on {gpu.host} is "
                f"{gpu.facts.health}{detail}",
                next=f"vgpumgr gpu show {gpu.id}",
            )
        elif gpu.health.state is not HealthState.HEALTHY:
            takes = gpu.health.state.takes_vms
            yield Finding(
                check=f"gpu {gpu.id}",
                mark=CheckOutcome.WARN if takes else CheckOutcome.BAD,
                text=f"{gpu.facts.model} {gpu.facts.device} on {gpu.host} is "
                f"{gpu.health.state}: {gpu.health.why}",
                next=f"vgpumgr gpu show {gpu.id}",
            )
        doubt = catalog.contradiction(gpu.facts)
        if doubt:
            yield Finding(
                check=f"gpu {gpu.id}",
                mark=CheckOutcome.BAD,
                text=f"{gpu.facts.device} on {gpu.host} takes no VM: {doubt}",
                next=f"vgpumgr gpu show {gpu.id}",
            )


def _layouts(app: App) -> Iterator[Finding]:
    """Changes of a layout that were cut: their GPUs take no VM."""
    for record in app.writable_ledger.layouts():
        if not record.settled:
            yield Finding(
                check=f"gpu {record.gpu}",
                mark=CheckOutcome.BAD,
                text=f"its layout {record.layout} on {record.host} is not finished",
                next="vgpumgr layout apply -f FILE   (the same command resumes it)",
            )


def _vms(app: App) -> Iterator[Finding]:
    """VMs that should run and do not, on hosts that answered."""
    hosts = {host.name: host for host in app.writable_ledger.hosts()}
    for vm in app.writable_ledger.vms():
        facts = hosts[vm.host].facts if vm.host in hosts else None
        if facts is None or hosts[vm.host].last_error or vm.state is not VmState.ACTIVE:
            continue
        running = {d.name for d in facts.domains if d.state is not DomainState.SHUTOFF}
        if vm.running and vm.name not in running:
            yield Finding(
                check=f"vm {vm.name}",
                mark=CheckOutcome.BAD,
                text=f"should run on {vm.host} and does not",
                next=f"vgpumgr vm start {vm.name}",
            )

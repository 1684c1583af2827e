"""``doctor``: look at everything that may be wrong, and say what to type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr.app.composition import App
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu import GpuHealth, GpuState
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.vm import VmState


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check and its outcome."""

    check: str
    ok: bool
    text: str
    next: str = ""


def examine(app: App) -> tuple[Finding, ...]:
    """Every check, from this machine outwards."""
    try:
        hosts = app.ledger.hosts()
    except VgpumgrError as error:
        return (Finding(check="ledger", ok=False, text=error.message, next=error.next),)
    findings = [Finding(check="ledger", ok=True, text=app.config.ledger)]
    findings += _operations(app)
    if not hosts:
        findings.append(
            Finding(
                check="hosts",
                ok=False,
                text="no host is enrolled",
                next="vgpumgr host add NAME --address USER@HOST",
            )
        )
        return tuple(findings)
    observation = app.engine.refresh()
    for host in app.writable_ledger.hosts():
        fault = observation.failed.get(host.name)
        if fault is not None:
            findings.append(
                Finding(check=f"host {host.name}", ok=False, text=fault.message, next=fault.next)
            )
        elif host.facts is not None:
            findings += _host(host, host.facts)
    findings += _gpus(app)
    findings += _layouts(app)
    findings += _vms(app)
    return tuple(findings)


def _operations(app: App) -> Iterator[Finding]:
    open_ones = app.ledger.operations(open_only=True)
    for operation in open_ones:
        yield Finding(
            check="operations",
            ok=False,
            text=f"{operation.kind} {operation.id[:8]} is {operation.state}",
            next=f"vgpumgr operation resume {operation.id[:8]}   (or: undo)",
        )
    if not open_ones:
        yield Finding(check="operations", ok=True, text="none is unfinished")


def _host(host: HostRecord, facts: HostFacts) -> Iterator[Finding]:
    check = f"host {host.name}"
    for part in facts.unknown:
        yield Finding(check=check, ok=False, text=f"could not read {part.part}: {part.why}")
    if not facts.iommu:
        yield Finding(
            check=check,
            ok=False,
            text="the IOMMU is off: no passthrough",
            next="add intel_iommu=on (or enable AMD-Vi in firmware) and reboot the host",
        )
    if not facts.unknown and facts.iommu:
        kvm = "KVM" if facts.kvm else "no KVM: domains run under TCG"
        yield Finding(
            check=check,
            ok=True,
            text=f"libvirt {facts.versions.libvirt}, {len(facts.gpus)} GPUs, {kvm}",
        )


def _gpus(app: App) -> Iterator[Finding]:
    for gpu in app.writable_ledger.gpus():
        if gpu.state is not GpuState.HEALTHY:
            yield Finding(
                check=f"gpu {gpu.id}",
                ok=False,
                text=f"{gpu.facts.model} {gpu.facts.device} on {gpu.host} is {gpu.state}",
                next=f"vgpumgr gpu show {gpu.id}",
            )
        if gpu.facts.health is not GpuHealth.OK:
            detail = f": {gpu.facts.health_detail}" if gpu.facts.health_detail else ""
            yield Finding(
                check=f"gpu {gpu.id}",
                ok=False,
                text=f"{gpu.facts.model} {gpu.facts.device} on {gpu.host} is "
                f"{gpu.facts.health}{detail}",
                next=f"vgpumgr gpu show {gpu.id}",
            )


def _layouts(app: App) -> Iterator[Finding]:
    """Changes of a layout that were cut: their GPUs take no VM."""
    for record in app.writable_ledger.layouts():
        if not record.settled:
            yield Finding(
                check=f"gpu {record.gpu}",
                ok=False,
                text=f"its layout {record.layout} on {record.host} is not finished",
                next="vgpumgr layout apply -f FILE   (the same command goes on)",
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
                ok=False,
                text=f"should run on {vm.host} and does not",
                next=f"vgpumgr vm start {vm.name}",
            )

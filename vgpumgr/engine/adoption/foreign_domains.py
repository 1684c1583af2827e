"""The foreign domains of a host: adoptable ones, and the others with their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vgpumgr.domainxml import Described
from vgpumgr.domainxml.foreign_domains import X86_HUGEPAGE_KIB
from vgpumgr.engine.adoption.candidate import AdoptionCandidate, AdoptionHost, UnownedPart, fault_of
from vgpumgr.engine.adoption.foreign_parts import is_of_gpu, parts_of
from vgpumgr.engine.drift.host_comparison import mdev_removal, vgpu_removal
from vgpumgr.engine.inventory.host_supply import unread
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts.layout_goals import export
from vgpumgr.engine.reservation.domain_plan import spec_of
from vgpumgr.model import formats
from vgpumgr.model.domain import OFF, DomainFacts, DomainState
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import GpuLayout, LayoutSpec
from vgpumgr.model.vm import GpuRequest, VmSpec

_AT_REST = OFF | {DomainState.RUNNING}

# The definition as text, and read; a sentence where it could not be.
Read = tuple[str, Described] | str


def adoption_host(view: LedgerView, host: HostRecord) -> AdoptionHost:
    """The host as its last probe saw it, with what the ledger holds on it."""
    assert host.facts is not None, "it was probed"
    return AdoptionHost(
        facts=host.facts,
        gpus=[gpu for gpu in view.gpus if gpu.host == host.name],
        held=[each for each in view.allocations if each.host == host.name],
    )


def foreign(view: LedgerView, host: HostRecord) -> tuple[DomainFacts, ...]:
    """The domains of a host that do not carry our fleet's mark."""
    domains = host.facts.domains if host.facts else ()
    return tuple(
        each for each in domains if each.ownership is None or each.ownership.fleet != view.fleet
    )


def candidates(
    view: LedgerView, host: HostRecord, read: Mapping[str, Read]
) -> Iterator[AdoptionCandidate]:
    """Every foreign domain of a host, with the parts that it would hold."""
    around, vms = adoption_host(view, host), {vm.name for vm in view.vms}
    domains = {domain.name for domain in around.facts.domains}
    for domain in foreign(view, host):
        found = _candidate(host, domain, read.get(domain.name, "was not read"), around)
        named = fault_of(domain.name, vms, domains)
        yield replace(found, why=(*_of_host(host), *((named,) if named else ()), *found.why))


def _of_host(host: HostRecord) -> Iterator[str]:
    if why := unread(host):
        yield f"{host.name} was not read completely: {why}"
    if host.probe_only:
        yield f"{host.name} has no helper: nothing can be claimed on it"


def _candidate(
    host: HostRecord, domain: DomainFacts, read: Read, around: AdoptionHost
) -> AdoptionCandidate:
    plain = AdoptionCandidate(
        host=host.name,
        name=domain.name,
        uuid=domain.uuid,
        running=domain.state not in OFF,
        autostart=domain.autostart,
    )
    if isinstance(read, str):
        return replace(plain, why=(*_state(domain), f"its definition {read}"))
    xml, described = read
    managed = {each.device for each in described.devices if each.managed}
    parts, lacking = parts_of(domain, around, managed)
    spec = spec_of(described, around.facts.hugepage_kib or X86_HUGEPAGE_KIB)
    other = _other_devices(domain, described, around)
    why = (*_state(domain), *(spec if isinstance(spec, tuple) else ()), *other, *lacking)
    if not isinstance(spec, VmSpec):
        return replace(plain, why=why)
    gpus = _merged([GpuRequest(profile=each.offer.profile) for each in parts])
    return replace(
        plain,
        xml=xml,
        spec=replace(spec, gpus=gpus, autostart=domain.autostart),
        parts=parts,
        cpus=described.pins,
        numa_node=described.numa_node,
        why=why,
        notes=tuple(_notes(host, domain)),
    )


def _state(domain: DomainFacts) -> Iterator[str]:
    if domain.ownership is not None:
        yield f"it is fleet {domain.ownership.fleet}'s VM {domain.ownership.vm}"
    if not domain.persistent:
        yield "it runs without a definition: virsh dumpxml it, then virsh define"
    if domain.state not in _AT_REST:
        yield f"it is {domain.state}: resume it, or power it off"


def _other_devices(
    domain: DomainFacts, described: Described, around: AdoptionHost
) -> Iterator[str]:
    """Whether the running domain has other devices than its definition: the next start would hold
    others. A NIC's VF may come from a pool of libvirt's, another VF at each start.
    """
    different = {device.device for device in described.devices} ^ set(domain.devices)
    different = {each for each in different if is_of_gpu(each, domain, around)}
    if different:
        names = ", ".join(sorted(different))
        yield f"it runs with other devices than it is defined with: {names}"


def _merged(requests: list[GpuRequest]) -> tuple[GpuRequest, ...]:
    """Neighbours alike become one request with a count."""
    merged: list[GpuRequest] = []
    for each in requests:
        if merged and merged[-1].profile == each.profile:
            merged[-1] = replace(merged[-1], count=merged[-1].count + 1)
        else:
            merged.append(each)
    return tuple(merged)


def _notes(host: HostRecord, domain: DomainFacts) -> Iterator[str]:
    known = host.facts.foreign_mdev_definitions if host.facts else ()
    for device in domain.devices:
        if device in known:
            yield (
                f"mdevctl also creates {device} at boot: "
                f"on {host.name}: mdevctl undefine --uuid {device}"
            )


def unowned_parts(view: LedgerView, host: HostRecord) -> Iterator[UnownedPart]:
    """Foreign devices that no domain names, and partitioning that no layout declares."""
    around = adoption_host(view, host)
    named = {device for domain in around.facts.domains for device in domain.devices}
    known = named | {device for each in around.held for device in (each.device, *each.companions)}
    claimed = {claim.unit for claim in around.facts.claims}
    for gpu in around.gpus:
        for subject, unit, what, away in _devices(gpu, around):
            if subject not in known and unit not in claimed:
                yield UnownedPart(
                    host=host.name,
                    gpu=gpu.id,
                    subject=subject,
                    text=f"{what} on {gpu.facts.model} {gpu.facts.device}: no domain names it",
                    next=f"on {host.name}: {away}   (or put it into a domain)",
                )
    yield from _layouts(view, host)


def _devices(gpu: GpuRecord, around: AdoptionHost) -> Iterator[tuple[str, str, str, str]]:
    """Subject, unit of its claim, words, and the command that ends it."""
    parents = {gpu.facts.device, *(vf.address for vf in gpu.facts.vfs)}
    for mdev in around.facts.mdevs:
        if mdev.parent in parents:
            what = f"mdev {mdev.uuid} ({mdev.type_id})"
            yield mdev.uuid, formats.mdev_claim(mdev.uuid), what, mdev_removal(mdev.uuid)
    for vf in gpu.facts.vfs:
        if vf.vendor is not None and vf.vendor.type_id:
            what = f"a vGPU of type {vf.vendor.type_id} on VF {vf.address}"
            yield vf.address, formats.pci_claim(vf.address), what, vgpu_removal(vf.address)


def undeclared(view: LedgerView, host: str) -> tuple[LayoutSpec, ...]:
    """How the GPUs of a host are partitioned that no layout declares."""
    declared = {record.gpu for record in view.layouts}
    known = {gpu.facts.device for gpu in view.gpus if gpu.host == host and gpu.id in declared}
    found = []
    for spec in export(view, (host,)):
        rules = [
            rule for rule in spec.rules if _is_cut(rule.layout) and not known & {*rule.devices}
        ]
        found += [replace(spec, rules=tuple(rules))] if rules else []
    return tuple(found)


def _is_cut(layout: GpuLayout) -> bool:
    return bool(layout.mig or layout.vfs or layout.mixed_size)


def _layouts(view: LedgerView, host: HostRecord) -> Iterator[UnownedPart]:
    by_device = {gpu.facts.device: gpu for gpu in view.gpus if gpu.host == host.name}
    for spec in undeclared(view, host.name):
        for rule in spec.rules:
            gpu = by_device[rule.devices[0]]
            yield UnownedPart(
                host=host.name,
                gpu=gpu.id,
                subject=gpu.facts.device,
                text=f"{gpu.facts.model} {gpu.facts.device} is partitioned, "
                "but no layout declares it",
                next=f"vgpumgr adopt {host.name} --layout",
            )

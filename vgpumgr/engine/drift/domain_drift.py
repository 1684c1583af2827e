"""Drift of domains: missing, changed, in another state than wanted, or on a second host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpumgr import domainxml
from vgpumgr.domainxml import DomainParts
from vgpumgr.engine.drift.host_comparison import ComparedHost, defined_anew
from vgpumgr.model.domain import OFF, DomainFacts, DomainState, Ownership
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.profile_disk import PROFILE_SERIAL, PROFILE_TARGET
from vgpumgr.model.vm import VmRecord, VmState

# name, wanted, found; None: it has none.
Change = tuple[str, str | None, str | None]


def definition_drifts(side: ComparedHost) -> Iterator[Drift]:
    """Definitions against what we would define now, in the parts that a VM's file asks for.

    Compared by parts, not by text: what a newer libvirt or a newer template of ours would have
    otherwise is no change by hand.
    """
    flags = {d.name: d.autostart for d in side.facts.domains if side.is_ours(d)}
    for vm in side.vms:
        defined = side.seen.definitions.get(vm.name)
        wanted = _wanted(side, vm)
        if defined is None or wanted is None or vm.name not in flags:
            continue
        changes = _changes(_all(wanted), _all(defined.parts))
        for change in changes:
            yield _definition(side, vm, change)
        starts = side.sites.site(side.host).autostarts(vm.spec)
        if flags[vm.name] != starts:
            yield _autostart(side, vm, wanted=starts)
        known = {name for name, _, _ in changes}
        devices = defined.parts.devices
        for change in _changes(devices, side.seen.running_devices.get(vm.name, devices)):
            if change[0] not in known and not _is_profile_disk(change):
                yield _attached(side, vm, change)


def _is_profile_disk(change: Change) -> bool:
    """A user's own disk is given to the VM while it runs; its definition never names it."""
    name, wanted, found = change
    mark = f"serial {PROFILE_SERIAL}"
    return wanted is None and name == f"disk {PROFILE_TARGET}" and mark in (found or "")


def _wanted(side: ComparedHost, vm: VmRecord) -> DomainParts | None:
    """None where a storage pool of it is gone, which is said elsewhere, and for an adopted VM that
    holds other devices than it came with.
    """
    try:
        return domainxml.parts(side.sites.definition(vm))
    except (Conflict, NotFound):
        return None


def _all(parts: DomainParts) -> dict[str, str]:
    return {**parts.settings, **parts.devices}


def _changes(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[Change]:
    names = sorted(wanted.keys() | found.keys())
    every = [(name, wanted.get(name), found.get(name)) for name in names]
    return [each for each in every if each[1] != each[2]]


def _definition(side: ComparedHost, vm: VmRecord, change: Change) -> Drift:
    name, wanted, found = change
    return Drift(
        kind=DriftKind.DEFINITION,
        host=side.host,
        vm=vm.name,
        subject=name,
        text=f"{vm.name}'s definition was changed: {_sentence(change)}",
        wanted=_shown(wanted),
        found=_shown(found),
        next=f"on {side.host}: virsh edit {vm.name}   "
        "(or write it into the VM's file and vgpumgr apply -f FILE)",
    )


def _attached(side: ComparedHost, vm: VmRecord, change: Change) -> Drift:
    name, wanted, found = change
    return Drift(
        kind=DriftKind.ATTACHED,
        host=side.host,
        vm=vm.name,
        subject=name,
        text=f"{vm.name} runs with other devices than it is defined with: {_sentence(change)}",
        wanted=_shown(wanted),
        found=_shown(found),
        next=f"vgpumgr vm stop {vm.name}, then vgpumgr vm start {vm.name}",
    )


def _autostart(side: ComparedHost, vm: VmRecord, *, wanted: bool) -> Drift:
    flag = "" if wanted else "--disable "
    return Drift(
        kind=DriftKind.DEFINITION,
        host=side.host,
        vm=vm.name,
        subject="autostart",
        text=f"autostart of {vm.name} is {_on(not wanted)}, should be {_on(wanted)}",
        wanted=_on(wanted),
        found=_on(not wanted),
        next=f"on {side.host}: virsh autostart {flag}{vm.name}",
    )


def _sentence(change: Change) -> str:
    name, wanted, found = change
    if found is None:
        return f"{name} is gone"
    if wanted is None:
        return f"{name} was added{f': {found}' if found else ''}"
    return f"{name} is {found}, should be {wanted}"


def _shown(text: str | None) -> str:
    return "none" if text is None else text or "there"


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def domain_drifts(side: ComparedHost) -> Iterator[Drift]:
    """Every VM against the domain of its name, and every domain that carries our mark."""
    if side.unread("libvirt", "domains"):
        return
    by_name = {domain.name: domain for domain in side.facts.domains}
    for vm in side.vms:
        yield from _vm(side, vm, by_name.get(vm.name))
    for domain in side.facts.domains:
        if domain.ownership is not None and domain.ownership.fleet == side.fleet:
            yield from _marked(side, domain, domain.ownership)


def _vm(side: ComparedHost, vm: VmRecord, domain: DomainFacts | None) -> Iterator[Drift]:
    if domain is None:
        yield _missing(side, vm)
        return
    if domain.ownership is None or domain.ownership.vm_id != vm.id:
        yield _not_ours(side, vm, domain)
        return
    yield from _mark(side, vm, domain)
    if not domain.persistent:
        yield _transient(side, vm)
    if vm.running != (domain.state is DomainState.RUNNING):
        yield from _power(side, vm, domain.state)


def _missing(side: ComparedHost, vm: VmRecord) -> Drift:
    other = next((d for d in side.facts.domains if _is_of(vm, d)), None)
    renamed = f"; domain {other.name} carries its mark" if other else ""
    start = f"vgpumgr vm start {vm.name}   (it redefines the domain)"
    return Drift(
        kind=DriftKind.DOMAIN_MISSING,
        host=side.host,
        vm=vm.name,
        subject=f"domain {vm.name}",
        text=f"domain {vm.name} is not defined{renamed}",
        wanted="defined",
        found=f"renamed to {other.name}" if other else "missing",
        next=f"on {side.host}: virsh domrename {other.name} {vm.name}" if other else start,
    )


def _is_of(vm: VmRecord, domain: DomainFacts) -> bool:
    return domain.ownership is not None and domain.ownership.vm_id == vm.id


def _not_ours(side: ComparedHost, vm: VmRecord, domain: DomainFacts) -> Drift:
    mark = domain.ownership
    return Drift(
        kind=DriftKind.DOMAIN_NOT_OURS,
        host=side.host,
        vm=vm.name,
        subject=f"domain {vm.name}",
        text=f"domain {vm.name} does not carry the mark of this VM: somebody else defined it",
        wanted=f"vm {vm.id}",
        found=f"vm {mark.vm_id}" if mark else "no mark",
        next=f"on {side.host}: virsh domrename {vm.name} OTHER, then vgpumgr vm start {vm.name}",
    )


def _mark(side: ComparedHost, vm: VmRecord, domain: DomainFacts) -> Iterator[Drift]:
    """A change of bookkeeping alone leaves the generation in the mark as it was."""
    defined = side.seen.definitions.get(vm.name)
    mark = defined.mark if defined else domain.ownership
    held = {each.id for each in side.held if each.vm_id == vm.id}
    wanted = _words(side.fleet, vm.id, held)
    found = _words(mark.fleet, mark.vm_id, set(mark.allocations)) if mark else "no mark"
    if found == wanted and mark and mark.generation > vm.generation:
        wanted, found = f"generation {vm.generation}", f"generation {mark.generation}"
    if found != wanted:
        yield Drift(
            kind=DriftKind.MARK,
            host=side.host,
            vm=vm.name,
            subject="mark",
            text=f"the mark in {vm.name}'s definition was changed: {found}",
            wanted=wanted,
            found=found,
            next=defined_anew(side.host, vm.name),
        )


def _words(fleet: str, vm_id: str, allocations: set[str]) -> str:
    return f"fleet {fleet}, vm {vm_id}, {', '.join(sorted(allocations)) or 'no allocations'}"


def _transient(side: ComparedHost, vm: VmRecord) -> Drift:
    return Drift(
        kind=DriftKind.DOMAIN_TRANSIENT,
        host=side.host,
        vm=vm.name,
        subject=f"domain {vm.name}",
        text=f"domain {vm.name} runs and is no longer defined: it is gone when it stops",
        wanted="defined",
        found="transient",
        next=f"vgpumgr vm stop {vm.name}, then vgpumgr vm start {vm.name}",
    )


def _power(side: ComparedHost, vm: VmRecord, state: DomainState) -> Iterator[Drift]:
    if not vm.running and state in OFF:
        return
    wanted = "running" if vm.running else "shutoff"
    yield Drift(
        kind=DriftKind.POWER,
        host=side.host,
        vm=vm.name,
        subject=f"domain {vm.name}",
        text=f"domain {vm.name} is {_state(state)}, should be {wanted}",
        wanted=wanted,
        found=_state(state),
        next=_power_next(side.host, vm, state),
    )


def _state(state: DomainState) -> str:
    return "neither running nor off" if state is DomainState.OTHER else str(state)


def _power_next(host: str, vm: VmRecord, state: DomainState) -> str:
    if not vm.running:
        return f"vgpumgr vm stop {vm.name}"
    if state in OFF:
        ends = f"   (vgpumgr serve ends {vm.name}, which has a queue:)" if vm.spec.queue else ""
        return f"vgpumgr vm start {vm.name}{ends}"
    command = "resume" if state is DomainState.PAUSED else "domstate --reason"
    return f"on {host}: virsh {command} {vm.name}"


def _marked(side: ComparedHost, domain: DomainFacts, mark: Ownership) -> Iterator[Drift]:
    """A domain of ours that the ledger has elsewhere, on the shelf, or not at all."""
    if mark.vm_id in side.work.touched:
        return
    vm = side.ours.get(mark.vm_id)
    if vm is None:
        yield _leftover(side, domain)
    elif vm.host != side.host:
        yield _elsewhere(side, domain, vm)
    elif vm.state is VmState.SHELVED and domain.state not in OFF:
        yield _off_the_shelf(side, domain, vm)


def _off_the_shelf(side: ComparedHost, domain: DomainFacts, vm: VmRecord) -> Drift:
    return Drift(
        kind=DriftKind.POWER,
        host=side.host,
        vm=vm.name,
        subject=f"domain {domain.name}",
        text=f"domain {domain.name} is {_state(domain.state)}, and its VM is shelved: it runs "
        "without its GPU parts, on CPUs and memory that other VMs may get",
        wanted="shutoff",
        found=_state(domain.state),
        next=f"vgpumgr vm stop {vm.name}, then, if it should run, vgpumgr vm start {vm.name}",
    )


def _leftover(side: ComparedHost, domain: DomainFacts) -> Drift:
    return Drift(
        kind=DriftKind.DOMAIN_LEFTOVER,
        host=side.host,
        subject=f"domain {domain.name}",
        text=f"domain {domain.name} carries our mark, but the ledger has no such VM",
        wanted="missing",
        found=str(domain.state),
        next="is the ledger an older copy? If not, "
        f"on {side.host}: virsh undefine --nvram {domain.name}",
    )


def _elsewhere(side: ComparedHost, domain: DomainFacts, vm: VmRecord) -> Drift:
    return Drift(
        kind=DriftKind.DOMAIN_ELSEWHERE,
        host=side.host,
        vm=vm.name,
        subject=f"domain {domain.name}",
        text=f"domain {domain.name} of VM {vm.name} is {domain.state} here, "
        f"the VM belongs to {vm.host}",
        wanted=vm.host,
        found=side.host,
        next=f"make sure that it does not run twice, then on {side.host}: "
        f"virsh undefine --keep-nvram --keep-tpm {domain.name}",
    )

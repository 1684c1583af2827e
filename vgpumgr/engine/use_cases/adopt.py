"""What others made, found and brought under management as it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from vgpumgr import domainxml
from vgpumgr.engine.adoption.candidate import Candidate, Findings, FoundPart
from vgpumgr.engine.adoption.finding import Read, candidates, foreign, loose, undeclared
from vgpumgr.engine.adoption.reserving import Adoption, adoption, reservation
from vgpumgr.engine.adoption.slots import slots_of
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import layout
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.journal import ADOPT
from vgpumgr.model.layout import LayoutPlan
from vgpumgr.model.ports import Host


def find(session: Session, names: Collection[str] = ()) -> tuple[Findings, LedgerView]:
    """Probe these hosts (all without names) and say what could be adopted; nothing is changed."""
    failed = session.refresh(names).failed
    view = session.view()
    hosts = [
        host
        for host in view.hosts
        if (not names or host.name in names) and host.facts and host.name not in failed
    ]
    read = session.lanes.run(
        {host.name: partial(_read, session.hosts.open(host), foreign(view, host)) for host in hosts}
    )
    texts = {name: each for name, each in read.items() if not isinstance(each, Exception)}
    lost = {name: str(each) for name, each in read.items() if isinstance(each, Exception)}
    lost |= {name: error.message for name, error in failed.items()}
    known = [host for host in hosts if host.name in texts]
    findings = Findings(
        candidates=tuple(c for h in known for c in candidates(view, h, texts[h.name])),
        loose=tuple(each for host in known for each in loose(view, host)),
        not_read=tuple(f"{name}: {why}" for name, why in sorted(lost.items())),
    )
    return findings, view


def _read(host: Host, domains: Sequence[DomainFacts]) -> dict[str, Read]:
    """Every definition; what libvirt would not tell is named."""
    return {domain.name: _definition(host, domain) for domain in domains if domain.persistent}


def _definition(host: Host, domain: DomainFacts) -> Read:
    try:
        xml = host.domains.xml(domain.name)
        return xml, domainxml.described(xml)
    except NotFound:
        return "is gone"
    except ValueError as error:
        return f"makes no sense: {error}"


def adopt(session: Session, host: str, names: Sequence[str], tenant: str) -> Outcome:
    """Adopt these domains of a host; what keeps one from it is raised, and nothing is changed.

    An adoption that was cut goes on; what was adopted before is left as it is.
    """
    before = _unfinished(session, names)
    vms = session.ledger.vms()
    done = {vm.name for vm in vms if vm.host == host and vm.definition}
    ready = [name for name in names if name not in done | {each.vm for each in before.vms}]
    if not ready:
        return before

    def attempt() -> Outcome:
        findings, view = find(session, (host,))
        if findings.not_read:
            error = session.ledger.host(host).last_error
            raise Conflict(f"{host} could not be read", why=error or findings.not_read[0])
        chosen = [_chosen(findings, host, name) for name in ready]
        made = _adoptions(session, chosen, view, tenant)
        return before.then(operations.begin(session, reservation(made, view, session.opening())))

    return until_current(attempt)


def _unfinished(session: Session, names: Collection[str]) -> Outcome:
    known = {vm.name: vm.spec for vm in session.ledger.vms() if vm.name in names}
    return operations.finish_leftovers(session, known, {ADOPT})


def _chosen(findings: Findings, host: str, name: str) -> Candidate:
    found = next((each for each in findings.candidates if each.name == name), None)
    if found is None:
        raise NotFound(
            f"{host} has no foreign domain {name}",
            why=f"there are {', '.join(c.name for c in findings.candidates) or 'none'}",
            next=f"vgpumgr adopt {host}",
        )
    if found.why:
        raise Conflict(
            f"{name} on {host} cannot be adopted",
            why="; ".join(found.why),
            next=f"vgpumgr adopt {host}",
        )
    return found


def _adoptions(
    session: Session, chosen: Sequence[Candidate], view: LedgerView, tenant: str
) -> list[Adoption]:
    """One after the other, so that two never take the same slots."""
    made: list[Adoption] = []
    for found in chosen:
        made.append(adoption(_placed(found, view), view, session.opening(), tenant))
        view = replace(view, allocations=(*view.allocations, *made[-1].allocations))
    return made


def _placed(found: Candidate, view: LedgerView) -> Candidate:
    """The same with slots that are still free; Conflict where there are none left."""
    gpus = {gpu.id: gpu for gpu in view.gpus}
    parts: list[FoundPart] = []
    for part in found.parts:
        slots = slots_of(part, gpus[part.gpu], view.allocations, parts)
        if not slots:
            raise Conflict(f"the ledger has no free capacity for {part.device} of {found.name}")
        parts.append(replace(part, slots=slots))
    return replace(found, parts=tuple(parts))


def adopt_layout(session: Session, host: str) -> tuple[LayoutPlan, Outcome]:
    """Declare how the GPUs of a host are partitioned now, so that its boots bring it back.

    Conflict where that would change any of them.
    """
    for error in session.refresh((host,)).failed.values():
        raise error
    specs = undeclared(session.view(), host)
    if not specs:
        raise NotFound(
            f"no GPU of {host} is partitioned without a layout", next=f"vgpumgr layout show {host}"
        )
    planned, _ = layout.plan(session, specs)
    changing = [change for change in planned.gpus if change.changes or change.refused]
    if changing:
        why = "; ".join(_lines(changing[0].differences, changing[0].refused))
        raise Conflict(
            f"{changing[0].device} on {host} cannot be adopted as it is",
            why=why,
            next=f"vgpumgr layout export {host}, then vgpumgr layout apply -f FILE",
        )
    return layout.apply(session, specs)


def _lines(differences: Sequence[str], refused: str) -> list[str]:
    return [*differences, *([refused] if refused else [])]

"""A host that was lost: proven off, its VMs recreated elsewhere, and tidied when it returns."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.evacuation import disks, leaving, reserving
from vgpumgr.engine.evacuation.plan import EvacuationPlan
from vgpumgr.engine.evacuation.planning import make_plan, on_host
from vgpumgr.engine.pooling import at_work, floating_desktops
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.steps.evacuating import runs_there
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.use_cases.marks import DRAINED, mark
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict, DeadlineExceeded, HostUnreachable, PartlyDone
from vgpumgr.model.fence import Proof
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.journal import EVACUATE
from vgpumgr.model.vm import VmState


def plan(
    session: Session, name: str, *, will_not_boot: bool = False
) -> tuple[EvacuationPlan, LedgerView]:
    """Probe the other hosts, then say what would become of each VM; nothing is changed.

    Those that hang are left out, unless a VM finds no place on the rest.
    """
    lost = session.ledger.host(name)
    with session.looking(without={name}) as hosts:
        hosts.wait()
        planned, view = _planned(session, lost, will_not_boot=will_not_boot)
        if planned.crowded and hosts.left_out:
            hosts.insist()
            planned, view = _planned(session, lost, will_not_boot=will_not_boot)
    return planned, view


def _planned(
    session: Session, lost: HostRecord, *, will_not_boot: bool
) -> tuple[EvacuationPlan, LedgerView]:
    view = session.view()
    others = (host for host in view.hosts if host.name != lost.name)
    targets = [h for h in others if not (h.at_rest or h.cordoned or h.last_error)]
    seen = disks.look(session, targets, tuple(on_host(view.vms, lost.name)))
    found = make_plan(view, lost, seen, session.place, will_not_boot=will_not_boot)
    pools = floating_desktops(session.ledger)
    staying = (
        replace(each, pool=pools.get(each.vm.id, "")) if each.vm.state is VmState.ACTIVE else each
        for each in found.staying
    )
    there = {vm.id for vm in on_host(view.vms, lost.name)}
    users = (user for id_, user in at_work(session.ledger, view).items() if id_ in there)
    return replace(found, staying=tuple(staying), users=tuple(users)), view


def evacuate(
    session: Session, name: str, *, will_not_boot: bool = False, proof: Proof | None = None
) -> tuple[EvacuationPlan, Outcome]:
    """Prove it off, then make its VMs anew where they can be; an evacuation that was cut goes on.
    With a ``proof`` that it is off already nothing is switched off.

    Conflict while it answers, Frozen where nothing may be allocated, NotPermitted where nobody can
    tell that it is off: nothing is changed then.
    """
    lost = session.ledger.host(name)
    _refuse_answering(session, lost)
    if frozen := session.ledger.frozen():
        raise frozen.refusal()
    proof = proof or session.fencing.switch_off(lost)
    mark(session, name, cordoned=True, maintenance=True, evacuated=True, **DRAINED)
    before = _unfinished(session, name)

    def attempt() -> tuple[EvacuationPlan, Outcome]:
        planned, view = plan(session, name, will_not_boot=will_not_boot)
        start = reserving.reservation(planned, view, session.opening(), proof)
        return planned, before.then(operations.begin(session, start))

    return until_current(attempt)


def tidy(session: Session, name: str) -> Outcome:
    """Take away what evacuated VMs left on a host that answers again; then it is evacuated no
    more, though still in maintenance.

    Conflict when one of them is not off there: that domain, and what it uses, is left alone.
    """
    left = leaving.left_on(session.ledger, session.view(), _facts(session, name))
    idle = [each for each in left if not each.runs]
    start = leaving.reservation(idle, name, session.opening())
    outcome = operations.begin(session, start)
    for each in left:
        if each.domain is not None and each.runs:
            raise runs_there(each.vm, name, str(each.domain.state))
    outcome.raise_for_failure()
    if not idle or not leaving.left_on(session.ledger, session.view(), _facts(session, name)):
        mark(session, name, evacuated=False)
    return outcome


def step(session: Session, host: str) -> Outcome:
    """As :func:`tidy`, for a loop: nothing where nothing is left, or while the host is away."""
    if not session.ledger.host(host).evacuated:
        return Outcome()
    try:
        return tidy(session, host)
    except (HostUnreachable, DeadlineExceeded):
        return Outcome()


def _facts(session: Session, name: str) -> HostFacts:
    """What a fresh probe shows; raises where that is not enough to say what is left."""
    observed = session.refresh([name])
    if name in observed.failed:
        raise observed.failed[name]
    facts = observed.facts[name]
    unread = leaving.unread(facts)
    if unread:
        raise PartlyDone(
            f"cannot tell what is left on {name}",
            why=f"could not read {unread}",
            next=f"vgpumgr doctor {name}",
        )
    return facts


def _refuse_answering(session: Session, lost: HostRecord) -> None:
    """A host whose domains can be read is not lost; one that is said to be off answers nothing."""
    facts = session.refresh([lost.name]).facts.get(lost.name)
    if facts is None:
        return
    if session.fencing.proof(lost) is not None:
        raise Conflict(
            f"{lost.name} answers: it is not off",
            why="its fence status or --confirm-off says that it is",
            next=f"vgpumgr host probe {lost.name}",
        )
    if not any(part.part in {"libvirt", "domains"} for part in facts.unknown):
        raise Conflict(
            f"{lost.name} answers: it is not lost",
            why="its running VMs can be moved without loss",
            next=f"vgpumgr host drain {lost.name}   (or switch it off first)",
        )


def _unfinished(session: Session, name: str) -> Outcome:
    names = {vm.name: vm.spec for vm in on_host(session.ledger.vms(), name)}
    return operations.finish_leftovers(session, names, {EVACUATE})

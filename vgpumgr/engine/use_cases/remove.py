"""A host taken out of the fleet: what is ours leaves it, then its row is closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr.engine import steps
from vgpumgr.engine.running import membership, operations
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.steps import ForgetLayout, KeepLayout, LeaveFleet, RemoveHelper, Step
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.journal import REMOVE, Reservation
from vgpumgr.model.ports import Host
from vgpumgr.model.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """``layouts`` are the GPUs whose layout the host does not keep for its boots any longer."""

    outcome: Outcome
    layouts: tuple[str, ...] = ()


def remove(session: Session, name: str) -> Removed:
    """Take a host out; a removal that was cut is resumed.

    Conflict while anything is allocated on it. InUse, and it stays as it was, while it carries
    claims that the ledger does not know.
    """
    operations.finish_leftovers(session, {}, frozenset())  # those whose end alone was lost
    record = session.ledger.host(name)
    if record.membership is Membership.JOINING:
        raise membership.not_finished(session.ledger, record)
    outcome = membership.go_on(session, name)
    if outcome is None:
        refuse_used(session, name)
        start = _reservation(record, _steps(session, record), session.opening())
        outcome = operations.begin(session, start)
    return Removed(outcome=outcome, layouts=_forgotten(session, outcome.operation))


def staying(view: LedgerView, name: str) -> tuple[str, ...]:
    """What of ours a removed host keeps, a line each: partitions of GPUs, copies of images."""
    found = [
        f"{gpu.facts.model} {gpu.facts.device} stays partitioned: {', '.join(parts)}"
        for gpu in view.gpus
        if gpu.host == name and (parts := tuple(_parts(gpu.facts)))
    ]
    found += [
        f"image {image.reference} stays: volume {image.volume} in storage pool {copy.pool}"
        for image in view.images
        for copy in image.copies
        if copy.host == name
    ]
    return tuple(found)


def _parts(facts: GpuFacts) -> Iterator[str]:
    if facts.mig is not None and facts.mig.enabled:
        instances = len(facts.mig.instances or ())
        yield f"MIG, {counted(instances, 'GPU instance')}" if instances else "MIG"
    if facts.vfs:
        yield counted(len(facts.vfs), "VF")


def refuse_used(session: Session, name: str) -> None:
    """Conflict while VMs or allocations are on it."""
    held = [each for each in session.ledger.allocations() if each.host == name]
    vms = [vm.name for vm in session.ledger.vms() if vm.host == name]
    if held or vms:
        raise Conflict(
            f"host {name} is in use",
            why=f"on it: {counted(len(vms), 'VM')}, {counted(len(held), 'allocation')}",
            next=f"vgpumgr vm list, then delete those on {name}",
        )


def forget(session: Session, name: str) -> None:
    """Take a host out that is gone for good: nothing is asked of it; what was begun there ends."""
    refuse_used(session, name)
    record = session.ledger.host(name)
    if record.membership is Membership.MEMBER:
        session.ledger.remove_host(name)
    else:
        membership.give_up(session, name)


def _steps(session: Session, record: HostRecord) -> tuple[Step, ...]:
    """None where nothing of ours is there: it was only probed, or cleaned by hand."""
    if record.probe_only:
        return ()
    host, fleet = session.hosts.open(record), session.ledger.fleet_id()
    found = host.installation.look()
    if not found.helper and not found.state:
        return ()
    return (*_layouts(host, fleet), LeaveFleet(fleet=fleet), RemoveHelper())


def _layouts(host: Host, fleet: str) -> Iterator[ForgetLayout]:
    """A step for each layout of ours that the host itself knows of."""
    found = host.helper.call("claims", {}).get("claims")
    claims: Sequence[Mapping[str, Any]] = found if isinstance(found, list) else []
    for claim in claims:
        if claim["fleet"] == fleet and claim["wanted"]["kind"] == "layout":
            yield ForgetLayout(kept=_kept(claim))


def _kept(claim: Mapping[str, Any]) -> KeepLayout:
    declared = {key: part for key, part in claim["wanted"].items() if key not in {"kind", "gpu"}}
    return KeepLayout(
        device=claim["wanted"]["gpu"],
        gpu=claim["allocation"],
        generation=claim["generation"],
        layout=claim["vm"],
        parts=declared,
    )


def _reservation(record: HostRecord, work: Sequence[Step], opening: Opening) -> Reservation:
    operation = opening.operation("host remove")
    task = opening.host_task(operation, REMOVE, work, record.name)
    return Reservation(operation=operation, tasks=(task,), leaving=(record.name,))


def _forgotten(session: Session, operation: str) -> tuple[str, ...]:
    tasks = session.ledger.tasks(operation)
    work = (steps.from_record(record) for task in tasks for record in task.steps)
    return tuple(step.kept.device for step in work if isinstance(step, ForgetLayout))

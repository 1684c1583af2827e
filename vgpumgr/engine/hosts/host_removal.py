"""``host remove``: a host leaves the fleet; its helper, its mark and kept layouts go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr.engine.hosts.host_membership import abandon, not_finished, resume
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.steps.layout_steps import ForgetLayout, KeepLayout
from vgpumgr.engine.steps.membership_steps import LeaveFleet, RemoveHelper
from vgpumgr.engine.steps.step import Step, from_record
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import counted
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.operation import (
    REMOVE,
    Reservation,
)
from vgpumgr.model.ports import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRemoval:
    """The result of a removal: ``layouts`` are the GPUs whose layouts the host no longer keeps for
    its boots.
    """

    outcome: Outcome
    layouts: tuple[str, ...] = ()


def remove(context: EngineContext, name: str) -> HostRemoval:
    """Take a host out; a removal that was cut is resumed.

    Conflict while anything is allocated on it. InUse, and it stays as it was, while it carries
    claims that the ledger does not know.
    """
    operation_lifecycle.finish_leftovers(context, {}, frozenset())  # those whose end alone was lost
    record = context.ledger.host(name)
    if record.membership is Membership.JOINING:
        raise not_finished(context.ledger, record)
    outcome = resume(context, name)
    if outcome is None:
        refuse_used(context, name)
        start = _removal(record, _remove_steps(context, record), context.opening())
        outcome = operation_lifecycle.begin(context, start)
    return HostRemoval(outcome=outcome, layouts=_forgotten(context, outcome.operation))


def staying(view: LedgerView, name: str) -> tuple[str, ...]:
    """The things of the fleet that a removed host keeps, a line each: partitions of GPUs, copies of
    images.
    """
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


def refuse_used(context: EngineContext, name: str) -> None:
    """Conflict while VMs or allocations are on it."""
    held = [each for each in context.ledger.allocations() if each.host == name]
    vms = [vm.name for vm in context.ledger.vms() if vm.host == name]
    if held or vms:
        raise Conflict(
            f"host {name} is in use",
            why=f"on it: {counted(len(vms), 'VM')}, {counted(len(held), 'allocation')}",
            next=f"vgpumgr vm list, then delete those on {name}",
        )


def forget(context: EngineContext, name: str) -> None:
    """Take a host out that is gone for good: nothing is asked of it; what was begun there ends."""
    refuse_used(context, name)
    record = context.ledger.host(name)
    if record.membership is Membership.MEMBER:
        context.ledger.remove_host(name)
    else:
        abandon(context, name)


def _remove_steps(context: EngineContext, record: HostRecord) -> tuple[Step, ...]:
    """None where nothing of ours is there: it was only probed, or cleaned by hand."""
    if record.probe_only:
        return ()
    host, fleet = context.hosts.open(record), context.ledger.fleet_id()
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


def _removal(record: HostRecord, work: Sequence[Step], opening: OperationOpening) -> Reservation:
    operation = opening.operation("host remove")
    task = opening.host_task(operation, REMOVE, work, record.name)
    return Reservation(operation=operation, tasks=(task,), leaving=(record.name,))


def _forgotten(context: EngineContext, operation: str) -> tuple[str, ...]:
    tasks = context.ledger.tasks(operation)
    work = (from_record(record) for task in tasks for record in task.steps)
    return tuple(step.kept.device for step in work if isinstance(step, ForgetLayout))

"""Remedies → the operation that carries them out: a task per VM, its steps in one order. Pure but
for the ids, which come from the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpumgr.engine.heal.remedy import Remedy, Way
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.steps import (
    ActivatePartition,
    AdoptDevice,
    ConfirmGone,
    DeactivatePartition,
    DefineDomain,
    ForgetDomain,
    KeepDomain,
    MarkDomain,
    RealiseDevice,
    RedefineDomain,
    ReleaseDevice,
    StartDomain,
    Step,
    StopDomain,
)
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.journal import CLEAN, HEAL, RELEASE, Reservation

# What has to be there before what needs it.
_ORDER: tuple[type[Step], ...] = (
    ForgetDomain,
    AdoptDevice,
    RealiseDevice,
    ActivatePartition,
    KeepDomain,
    DefineDomain,
    RedefineDomain,
    MarkDomain,
    StartDomain,
    StopDomain,
    DeactivatePartition,
    ReleaseDevice,
    ConfirmGone,
)
_VERBS = {Way.VM: HEAL, Way.CLEAN: CLEAN, Way.RELEASE: RELEASE}


def reservation(remedies: Iterable[Remedy], view: LedgerView, opening: Opening) -> Reservation:
    """One operation. The records of living VMs are compared with what they were judged by."""
    operation = opening.operation(HEAL)
    groups = _grouped(remedies)
    tasks = tuple(
        opening.task(
            operation,
            _VERBS[way],
            _in_order(each),
            vm_id=vm_id,
            vm=each[0].whose.name if each[0].whose else "",
            host=host,
        )
        for (way, host, vm_id), each in groups.items()
    )
    living = {vm_id for way, _, vm_id in groups if way is not Way.CLEAN}
    return Reservation(
        operation=operation,
        tasks=tasks,
        changed_vms=tuple(vm for vm in view.vms if vm.id in living),
    )


def _grouped(remedies: Iterable[Remedy]) -> dict[tuple[Way, str, str], list[Remedy]]:
    groups: dict[tuple[Way, str, str], list[Remedy]] = {}
    for each in remedies:
        if each.whose is not None and each.steps:
            groups.setdefault((each.way, each.drift.host, each.whose.id), []).append(each)
    return groups


def _in_order(remedies: Sequence[Remedy]) -> tuple[Step, ...]:
    """Every step once."""
    steps: list[Step] = []
    for step in _steps(remedies):
        if step not in steps:
            steps.append(step)
    return tuple(sorted(steps, key=lambda step: _ORDER.index(type(step))))


def _steps(remedies: Iterable[Remedy]) -> Iterator[Step]:
    for remedy in remedies:
        yield from remedy.steps

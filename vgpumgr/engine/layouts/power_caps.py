"""Caps of GPUs as one operation: a power limit, and clocks locked to a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr import layout
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.steps.layout_steps import ChangePart
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.layout import UNLOCKED, ClockRange, LockClocks, PartChange, SetPowerLimit
from vgpumgr.model.operation import LAYOUT, Reservation

KIND = "power cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHold:
    """The limit in watts and the range of clocks that a GPU is to have; None: left alone."""

    limit_w: int | None = None
    clocks: ClockRange | None = None


def changes(gpu: GpuRecord, hold: GpuHold) -> tuple[PartChange, ...]:
    """What is done to the GPU, clocks first."""
    power = gpu.facts.power
    if power is None:
        return ()
    found: list[PartChange] = []
    if hold.clocks is not None:
        found.append(LockClocks(range=hold.clocks, before=power.locked_clocks or UNLOCKED))
    if hold.limit_w is not None:
        found.append(SetPowerLimit(watts=hold.limit_w, before=power.limit_w))
    return tuple(found)


def apply(context: EngineContext, holds: Mapping[str, GpuHold]) -> tuple[Outcome, frozenset[str]]:
    """Have GPUs (our ids) held so, by one operation: its end, and the GPUs of which it was read
    back.
    """
    outcome = until_current(lambda: _begin(context, holds))
    done = {(each.host, each.vm) for each in outcome.done}
    gpus = [gpu for gpu in context.ledger.gpus() if gpu.id in holds]
    return outcome, frozenset(gpu.id for gpu in gpus if (gpu.host, _named(gpu)) in done)


def _begin(context: EngineContext, holds: Mapping[str, GpuHold]) -> Outcome:
    opening = context.opening()
    operation = opening.operation(KIND)
    gpus = [gpu for gpu in context.ledger.gpus() if gpu.id in holds]
    tasks, generations = [], {}
    for gpu in gpus:
        work = [
            ChangePart(device=gpu.facts.device, change=layout.to_plain(each))
            for each in changes(gpu, holds[gpu.id])
        ]
        if work:
            name = _named(gpu)
            tasks.append(
                opening.task(operation, LAYOUT, work, vm_id=gpu.id, vm=name, host=gpu.host)
            )
            generations[gpu.id] = gpu.generation
    start = Reservation(operation=operation, tasks=tuple(tasks), gpu_generations=generations)
    return operation_lifecycle.begin(context, start)


def _named(gpu: GpuRecord) -> str:
    return f"{gpu.facts.model} {gpu.facts.device}"

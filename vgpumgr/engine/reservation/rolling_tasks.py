"""The tasks of VMs that change in waves: what each is to be once its wave begins."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.operations.waiting_waves import begun
from vgpumgr.engine.steps.wave_steps import AwaitWave
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.operation import ROLL, OperationRecord, TaskRecord
from vgpumgr.model.vm import VmSpec


def rolling_tasks(
    plan: Plan, opening: OperationOpening, operation: OperationRecord, *, with_users: bool
) -> tuple[TaskRecord, ...]:
    """A task for each VM of each wave, which says what it is to be; the first wave has begun."""
    found = []
    for action in plan.actions:
        if action.rolling is None or action.record is None:
            continue
        step = AwaitWave(
            wave=action.wave,
            rolling=action.rolling,
            was=without_seed_text(action.record.spec),
            spec=without_seed_text(action.vm),
            with_users=with_users,
        )
        vm = action.record
        task = opening.task(operation, ROLL, [step], vm_id=vm.id, vm=vm.name, host=vm.host)
        found.append(begun(task) if action.wave == 1 else task)
    return tuple(found)


def without_seed_text(spec: VmSpec) -> VmSpec:
    """The spec without the text of its cloud-init seed, which a journal does not keep."""
    return replace(spec, cloud_init=spec.cloud_init.withheld() if spec.cloud_init else None)

"""Identity, time and epoch of a new operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vgpumgr.engine import steps
from vgpumgr.engine.steps import Between, Step
from vgpumgr.model.image import ImageCopy
from vgpumgr.model.operation import MIGRATE, OperationRecord, OperationState, TaskRecord
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True)
class Opening:
    """The controller's epoch, where ids come from, and the time (Unix seconds). ``within`` is the
    operation that gets more tasks, where it is no new one.
    """

    epoch: int
    new_uuid: Callable[[], str]
    now: float
    within: OperationRecord | None = None

    def operation(self, kind: str) -> OperationRecord:
        """A new one, running, or the one that is resumed."""
        return self.within or OperationRecord(
            id=self.new_uuid(),
            kind=kind,
            state=OperationState.RUNNING,
            epoch=self.epoch,
            started_at=self.now,
        )

    def task(
        self,
        operation: OperationRecord,
        verb: str,
        work: Sequence[Step],
        *,
        vm_id: str,
        vm: str,
        host: str,
    ) -> TaskRecord:
        """A task of it; a layout's has the GPU's id and name in the place of a VM's."""
        return TaskRecord(
            id=self.new_uuid(),
            operation=operation.id,
            vm_id=vm_id,
            vm=vm,
            host=host,
            verb=verb,
            steps=steps.to_records(work),
        )

    def host_task(
        self, operation: OperationRecord, verb: str, work: Sequence[Step], host: str
    ) -> TaskRecord:
        """A task of it that is about a host itself, and no VM."""
        return self.task(operation, verb, work, vm_id="", vm=f"host {host}", host=host)

    def copy_task(
        self, operation: OperationRecord, verb: str, step: Step, copy: ImageCopy, reference: str
    ) -> TaskRecord:
        """A task of it that is about a copy of an image; ``reference`` is ``cad@12``."""
        named = f"image {reference}"
        return self.task(operation, verb, [step], vm_id=copy.id, vm=named, host=copy.host)

    def migration(
        self,
        operation: OperationRecord,
        work: Sequence[tuple[str, Step | Between]],
        vm: VmRecord,
        peer: str,
    ) -> TaskRecord:
        """A task of it on two hosts: each step with the host where it acts."""
        return TaskRecord(
            id=self.new_uuid(),
            operation=operation.id,
            vm_id=vm.id,
            vm=vm.name,
            host=vm.host,
            peer=peer,
            verb=MIGRATE,
            steps=steps.to_records(
                (step for _, step in work), {seq: host for seq, (host, _) in enumerate(work)}
            ),
        )

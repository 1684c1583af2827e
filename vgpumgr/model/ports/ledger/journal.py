"""What the ledger knows of operations."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.model.journal import OperationRecord, TaskRecord, Transition


class Journal(Protocol):
    """What the ledger knows of operations: written before each step and after it."""

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable, together, before returning (commits may be shared)."""

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations, newest first; with ``since`` only the open ones and those that ended after
        that time (Unix seconds).
        """

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation with their steps."""

"""Operations, tasks and steps as the journal keeps them, and the transitions it records.

An *operation* is what a user started (``apply``, ``delete``, ``vm start``). It has one *task* per
VM; a task has numbered *steps*. All steps are written down before the first one runs.
"""

from vgpumgr.model.journal.records import (
    FINAL_TASKS,
    OperationRecord,
    OperationState,
    StepRecord,
    StepState,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.journal.reservation import Reservation
from vgpumgr.model.journal.transitions import (
    OperationMoved,
    Refused,
    Served,
    StepMoved,
    TaskMoved,
    Transition,
)
from vgpumgr.model.journal.verbs import (
    ADOPT,
    CLEAN,
    DISCARD,
    ENROL,
    EVACUATE,
    HEAL,
    IMPORT,
    LAYOUT,
    LEAVE,
    MIGRATE,
    OF_HOSTS,
    OF_IMAGES,
    REIMAGE,
    RELEASE,
    REMOVE,
    RESEAT,
    SHELVE,
    UNSHELVE,
    worked_on,
)

__all__ = [
    "ADOPT",
    "CLEAN",
    "DISCARD",
    "ENROL",
    "EVACUATE",
    "FINAL_TASKS",
    "HEAL",
    "IMPORT",
    "LAYOUT",
    "LEAVE",
    "MIGRATE",
    "OF_HOSTS",
    "OF_IMAGES",
    "REIMAGE",
    "RELEASE",
    "REMOVE",
    "RESEAT",
    "SHELVE",
    "UNSHELVE",
    "OperationMoved",
    "OperationRecord",
    "OperationState",
    "Refused",
    "Reservation",
    "Served",
    "StepMoved",
    "StepRecord",
    "StepState",
    "TaskMoved",
    "TaskRecord",
    "TaskState",
    "Transition",
    "worked_on",
]

"""Steps: plain values that know how to look, act and undo. The engine owns the journal."""

from __future__ import annotations

from vgpumgr.engine.steps.adoption_steps import AdoptDevice, MarkDomain
from vgpumgr.engine.steps.arrival_steps import (
    ConfirmMoved,
    RedefineReseated,
    StartMoved,
    StartReseated,
)
from vgpumgr.engine.steps.departure_steps import (
    STOP_TIMEOUT_S,
    ClearAutostart,
    Depart,
    DepartOff,
    StopToMove,
)
from vgpumgr.engine.steps.device_steps import (
    ActivatePartition,
    DeactivatePartition,
    RealiseDevice,
    ReleaseDevice,
)
from vgpumgr.engine.steps.domain_steps import (
    DefineDomain,
    RebootDomain,
    RedefineDomain,
    StartDomain,
    StopDomain,
    StopForNow,
    UndefineDomain,
)
from vgpumgr.engine.steps.evacuation_steps import LeaveDomain, SetAutostart, StartEvacuated
from vgpumgr.engine.steps.host_steps import (
    ChangePart,
    ForgetLayout,
    InstallHelper,
    JoinFleet,
    KeepLayout,
    LeaveFleet,
    RemoveHelper,
)
from vgpumgr.engine.steps.image_steps import DeleteImage, ImportImage
from vgpumgr.engine.steps.live_migration_steps import MoveDomain
from vgpumgr.engine.steps.repair_steps import ConfirmGone, ForgetDomain, KeepDomain
from vgpumgr.engine.steps.step import (
    Step,
    StepSurroundings,
    TwoHostStep,
    UndoNotPossible,
    from_record,
    settles,
    to_records,
)
from vgpumgr.engine.steps.volume_steps import (
    CarryVolume,
    CreateSeed,
    CreateVolume,
    DeleteReplaced,
    DeleteVolume,
)

__all__ = [
    "STOP_TIMEOUT_S",
    "ActivatePartition",
    "AdoptDevice",
    "CarryVolume",
    "ChangePart",
    "ClearAutostart",
    "ConfirmGone",
    "ConfirmMoved",
    "CreateSeed",
    "CreateVolume",
    "DeactivatePartition",
    "DefineDomain",
    "DeleteImage",
    "DeleteReplaced",
    "DeleteVolume",
    "Depart",
    "DepartOff",
    "ForgetDomain",
    "ForgetLayout",
    "ImportImage",
    "InstallHelper",
    "JoinFleet",
    "KeepDomain",
    "KeepLayout",
    "LeaveDomain",
    "LeaveFleet",
    "MarkDomain",
    "MoveDomain",
    "RealiseDevice",
    "RebootDomain",
    "RedefineDomain",
    "RedefineReseated",
    "ReleaseDevice",
    "RemoveHelper",
    "SetAutostart",
    "StartDomain",
    "StartEvacuated",
    "StartMoved",
    "StartReseated",
    "Step",
    "StepSurroundings",
    "StopDomain",
    "StopForNow",
    "StopToMove",
    "TwoHostStep",
    "UndefineDomain",
    "UndoNotPossible",
    "from_record",
    "settles",
    "to_records",
]

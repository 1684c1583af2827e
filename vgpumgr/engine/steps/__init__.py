"""Steps: plain values that know how to look, act and undo. The engine owns the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

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
    OFF,
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
from vgpumgr.engine.steps.step import Around, Between, Step, UndoNotPossible
from vgpumgr.engine.steps.volume_steps import (
    CarryVolume,
    CreateSeed,
    CreateVolume,
    DeleteReplaced,
    DeleteVolume,
)
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import Damaged
from vgpumgr.model.operation import StepRecord

__all__ = [
    "OFF",
    "STOP_TIMEOUT_S",
    "ActivatePartition",
    "AdoptDevice",
    "Around",
    "Between",
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
    "StopDomain",
    "StopForNow",
    "StopToMove",
    "UndefineDomain",
    "UndoNotPossible",
    "from_record",
    "settles",
    "to_records",
]

_KINDS: dict[str, type[Step | Between]] = {
    kind.__name__: kind
    for kind in (
        ActivatePartition,
        AdoptDevice,
        CarryVolume,
        ChangePart,
        ClearAutostart,
        ConfirmGone,
        ConfirmMoved,
        CreateSeed,
        CreateVolume,
        DeactivatePartition,
        DefineDomain,
        DeleteImage,
        DeleteReplaced,
        DeleteVolume,
        Depart,
        DepartOff,
        ForgetDomain,
        ForgetLayout,
        ImportImage,
        InstallHelper,
        JoinFleet,
        KeepDomain,
        KeepLayout,
        LeaveDomain,
        LeaveFleet,
        MarkDomain,
        MoveDomain,
        RealiseDevice,
        RebootDomain,
        RedefineDomain,
        RedefineReseated,
        ReleaseDevice,
        RemoveHelper,
        SetAutostart,
        StartDomain,
        StartEvacuated,
        StartMoved,
        StartReseated,
        StopDomain,
        StopForNow,
        StopToMove,
        UndefineDomain,
    )
}


def to_records(
    work: Iterable[Step | Between], elsewhere: Mapping[int, str] = MappingProxyType({})
) -> tuple[StepRecord, ...]:
    """Steps as the journal keeps them; ``elsewhere`` names another host by a step's number."""
    return tuple(
        StepRecord(
            seq=seq, kind=type(step).__name__, args=to_plain(step), host=elsewhere.get(seq, "")
        )
        for seq, step in enumerate(work)
    )


def settles(record: StepRecord) -> bool:
    """Does a task only go forward once this has happened?"""
    return _KINDS[record.kind].settles


def from_record(record: StepRecord) -> Step | Between:
    """The step that a journal record describes; Damaged for a record that nobody wrote."""
    try:
        return from_plain(_KINDS[record.kind], record.args)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise Damaged(
            f"damaged: step {record.seq} ({record.kind}) of an operation in the ledger",
            why=f"{type(error).__name__}: {error}",
            next="vgpumgr store restore BACKUP",
        ) from error

"""Steps: plain values that know how to look, act and undo. The engine owns the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from vgpumgr.engine.steps.adopting import AdoptDevice, MarkDomain
from vgpumgr.engine.steps.arriving import ConfirmMoved, StartMoved
from vgpumgr.engine.steps.base import Around, Between, Step, UndoNotPossible
from vgpumgr.engine.steps.carrying import CarryVolume
from vgpumgr.engine.steps.device import RealiseDevice, ReleaseDevice
from vgpumgr.engine.steps.domain import DefineDomain, RedefineDomain, UndefineDomain
from vgpumgr.engine.steps.enrolling import InstallHelper, JoinFleet
from vgpumgr.engine.steps.evacuating import LeaveDomain, SetAutostart, StartEvacuated
from vgpumgr.engine.steps.fabric import ActivatePartition, DeactivatePartition
from vgpumgr.engine.steps.healing import ConfirmGone, ForgetDomain, KeepDomain
from vgpumgr.engine.steps.image import DeleteImage, ImportImage
from vgpumgr.engine.steps.layout import ChangePart, KeepLayout
from vgpumgr.engine.steps.leaving import (
    STOP_TIMEOUT_S,
    ClearAutostart,
    Depart,
    DepartOff,
    StopToMove,
)
from vgpumgr.engine.steps.local_move import RedefineReseated, StartReseated
from vgpumgr.engine.steps.moving import MoveDomain
from vgpumgr.engine.steps.power import OFF, RebootDomain, StartDomain, StopDomain, StopForNow
from vgpumgr.engine.steps.removing import ForgetLayout, LeaveFleet, RemoveHelper
from vgpumgr.engine.steps.volume import CreateSeed, CreateVolume, DeleteReplaced, DeleteVolume
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import Damaged
from vgpumgr.model.journal import StepRecord

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

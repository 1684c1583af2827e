"""Steps: plain values that know how to look, act and undo. The engine owns the journal."""

from __future__ import annotations

from vgpumgr.engine.steps.base import Step, UndoNotPossible
from vgpumgr.engine.steps.device import RealiseDevice, ReleaseDevice
from vgpumgr.engine.steps.domain import DefineDomain, RedefineDomain, UndefineDomain
from vgpumgr.engine.steps.fabric import ActivatePartition, DeactivatePartition
from vgpumgr.engine.steps.layout import ChangePart
from vgpumgr.engine.steps.power import OFF, RebootDomain, StartDomain, StopDomain
from vgpumgr.engine.steps.volume import CreateSeed, CreateVolume, DeleteVolume
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.journal import StepRecord

__all__ = [
    "OFF",
    "ActivatePartition",
    "ChangePart",
    "CreateSeed",
    "CreateVolume",
    "DeactivatePartition",
    "DefineDomain",
    "DeleteVolume",
    "RealiseDevice",
    "RebootDomain",
    "RedefineDomain",
    "ReleaseDevice",
    "StartDomain",
    "Step",
    "StopDomain",
    "UndefineDomain",
    "UndoNotPossible",
    "from_record",
    "to_records",
]

_KINDS: dict[str, type[Step]] = {
    kind.__name__: kind
    for kind in (
        ActivatePartition,
        ChangePart,
        CreateSeed,
        CreateVolume,
        DeactivatePartition,
        DefineDomain,
        DeleteVolume,
        RealiseDevice,
        RebootDomain,
        RedefineDomain,
        ReleaseDevice,
        StartDomain,
        StopDomain,
        UndefineDomain,
    )
}


def to_records(steps: tuple[Step, ...]) -> tuple[StepRecord, ...]:
    """Steps as the journal keeps them."""
    return tuple(
        StepRecord(seq=seq, kind=type(step).__name__, args=to_plain(step))
        for seq, step in enumerate(steps)
    )


def from_record(record: StepRecord) -> Step:
    """The step that a journal record describes."""
    return from_plain(_KINDS[record.kind], record.args)

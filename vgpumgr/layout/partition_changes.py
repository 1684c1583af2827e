"""One change of a GPU's partitioning: effect, helper call, check, and journal form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from vgpumgr.layout import (
    instances_part,
    mig_mode_part,
    mixed_size_part,
    power_part,
    reset_part,
    scheduler_part,
    vfs_part,
)
from vgpumgr.layout.target import ReportedGpu
from vgpumgr.model import codec
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import (
    CreateInstance,
    DestroyInstance,
    LockClocks,
    PartChange,
    ResetGpu,
    SetMigMode,
    SetMixedSize,
    SetPowerLimit,
    SetScheduler,
    SetVfs,
)
from vgpumgr.model.operation import Observed
from vgpumgr.model.ports import Helper


def apply_change(gpu: GpuFacts, change: PartChange) -> GpuFacts:
    """The facts as the driver would leave them."""
    match change:
        case SetMigMode():
            return mig_mode_part.apply(gpu, change)
        case SetVfs():
            return vfs_part.apply(gpu, change)
        case SetMixedSize():
            return mixed_size_part.apply(gpu, change)
        case SetScheduler():
            return scheduler_part.apply(gpu, change)
        case DestroyInstance() | CreateInstance():
            return instances_part.apply(gpu, change)
        case ResetGpu():
            return reset_part.apply(gpu)
        case SetPowerLimit() | LockClocks():
            return power_part.apply(gpu, change)
        case _:
            assert_never(change)


def look(helper: Helper, device: str, change: PartChange) -> Observed:
    """Is the part of the GPU at PCI address ``device`` as the change leaves it?"""
    seen = ReportedGpu.of(helper.call("gpu_look", {"gpu": device}))
    match change:
        case SetMigMode():
            return mig_mode_part.look(seen, change)
        case SetVfs():
            return vfs_part.look(seen, change)
        case SetMixedSize():
            return mixed_size_part.look(seen, change)
        case SetScheduler():
            return scheduler_part.look(seen, change)
        case DestroyInstance():
            return instances_part.look_destroyed(seen, change)
        case CreateInstance():
            return instances_part.look_created(seen, change)
        case ResetGpu():
            return reset_part.look()
        case SetPowerLimit() | LockClocks():
            return power_part.look(seen, change)
        case _:
            assert_never(change)


def act(helper: Helper, device: str, change: PartChange) -> None:
    """Make the change; the helper refuses, or reads back before it answers."""
    verb, args = _verb(change)
    helper.call(verb, {"gpu": device, **args})


def reverse(change: PartChange) -> PartChange | None:
    """What undoes it; None for what only goes forward."""
    match change:
        case SetPowerLimit() | LockClocks():
            return power_part.reverse(change)
        case _:
            return None


def summary(change: PartChange) -> str:
    """A line for people: ``turn 32 VFs on``."""
    match change:
        case SetMigMode():
            return mig_mode_part.summary(change)
        case SetVfs():
            return vfs_part.summary(change)
        case SetMixedSize():
            return mixed_size_part.summary(change)
        case SetScheduler():
            return scheduler_part.summary(change)
        case DestroyInstance():
            return instances_part.destroy_summary(change)
        case CreateInstance():
            return instances_part.create_summary(change)
        case ResetGpu():
            return reset_part.summary()
        case SetPowerLimit() | LockClocks():
            return power_part.summary(change)
        case _:
            assert_never(change)


def _verb(change: PartChange) -> tuple[str, Mapping[str, object]]:
    match change:
        case SetMigMode():
            return mig_mode_part.verb(change)
        case SetVfs():
            return vfs_part.verb(change)
        case SetMixedSize():
            return mixed_size_part.verb(change)
        case SetScheduler():
            return scheduler_part.verb(change)
        case DestroyInstance():
            return instances_part.destroy_verb(change)
        case CreateInstance():
            return instances_part.create_verb(change)
        case ResetGpu():
            return reset_part.verb()
        case SetPowerLimit() | LockClocks():
            return power_part.verb(change)
        case _:
            assert_never(change)


_KINDS: dict[str, type[PartChange]] = {
    "mig-mode": SetMigMode,
    "vfs": SetVfs,
    "mixed-size": SetMixedSize,
    "scheduler": SetScheduler,
    "destroy-instance": DestroyInstance,
    "create-instance": CreateInstance,
    "reset": ResetGpu,
    "power-limit": SetPowerLimit,
    "lock-clocks": LockClocks,
}
_NAMES = {kind: tag for tag, kind in _KINDS.items()}


def to_plain(change: PartChange) -> dict[str, object]:
    """``{"kind": "vfs", "count": 32}``."""
    return {"kind": _NAMES[type(change)], **codec.to_plain(change)}


def from_plain(data: Mapping[str, object]) -> PartChange:
    """The reverse of :func:`to_plain`; KeyError for a kind of another version."""
    return codec.from_plain(_KINDS[str(data["kind"])], data)

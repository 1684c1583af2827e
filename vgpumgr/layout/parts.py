"""One change of one part: what it does, whether it is done, what the helper is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from vgpumgr.layout import gpu_instances, mig_mode, mixed_size, scheduler, vfs
from vgpumgr.layout.seen import Seen
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import (
    CreateInstance,
    DestroyInstance,
    PartChange,
    SetMigMode,
    SetMixedSize,
    SetScheduler,
    SetVfs,
)
from vgpumgr.model.observed import Observed
from vgpumgr.model.ports import Helper


def apply_change(gpu: GpuFacts, change: PartChange) -> GpuFacts:
    """The facts as the driver would leave them."""
    match change:
        case SetMigMode():
            return mig_mode.apply(gpu, change)
        case SetVfs():
            return vfs.apply(gpu, change)
        case SetMixedSize():
            return mixed_size.apply(gpu, change)
        case SetScheduler():
            return scheduler.apply(gpu, change)
        case DestroyInstance() | CreateInstance():
            return gpu_instances.apply(gpu, change)
        case _:
            assert_never(change)


def look(helper: Helper, device: str, change: PartChange) -> Observed:
    """Is the part of the GPU at PCI address ``device`` as the change leaves it?"""
    seen = Seen.of(helper.call("gpu_look", {"gpu": device}))
    match change:
        case SetMigMode():
            return mig_mode.look(seen, change)
        case SetVfs():
            return vfs.look(seen, change)
        case SetMixedSize():
            return mixed_size.look(seen, change)
        case SetScheduler():
            return scheduler.look(seen, change)
        case DestroyInstance():
            return gpu_instances.look_destroyed(seen, change)
        case CreateInstance():
            return gpu_instances.look_created(seen, change)
        case _:
            assert_never(change)


def act(helper: Helper, device: str, change: PartChange) -> None:
    """Make the change; the helper refuses, or reads back before it answers."""
    verb, args = _verb(change)
    helper.call(verb, {"gpu": device, **args})


def summary(change: PartChange) -> str:
    """A line for people: ``turn 32 VFs on``."""
    match change:
        case SetMigMode():
            return mig_mode.summary(change)
        case SetVfs():
            return vfs.summary(change)
        case SetMixedSize():
            return mixed_size.summary(change)
        case SetScheduler():
            return scheduler.summary(change)
        case DestroyInstance():
            return gpu_instances.destroy_summary(change)
        case CreateInstance():
            return gpu_instances.create_summary(change)
        case _:
            assert_never(change)


def _verb(change: PartChange) -> tuple[str, Mapping[str, object]]:
    match change:
        case SetMigMode():
            return mig_mode.verb(change)
        case SetVfs():
            return vfs.verb(change)
        case SetMixedSize():
            return mixed_size.verb(change)
        case SetScheduler():
            return scheduler.verb(change)
        case DestroyInstance():
            return gpu_instances.destroy_verb(change)
        case CreateInstance():
            return gpu_instances.create_verb(change)
        case _:
            assert_never(change)

"""Layouts: how the GPUs of a host are to be partitioned. Plain values.

A Layout owns MIG mode, SR-IOV VFs, mixed-size mode, the scheduler's policy, declared GPU
instances, power limit and locked clocks; what is made for a VM is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# ``vfs: max``: as many VFs as the board has.
VFS_MAX = -1
# The name of layouts that nobody wrote: the GPU was partitioned for a VM. No document can have it.
AUTOMATIC = "(auto)"


# ``limit_watts: default``: the board's own.
POWER_DEFAULT = 0
# The least and the most MHz to which a GPU's clocks are locked; none: they are not.
ClockRange = tuple[int, ...]
UNLOCKED: ClockRange = ()


# How the vGPU scheduler deals out time: a slice in microseconds, or a frequency in Hz (adaptive
# round robin) with its averaging factor; neither: the driver's own.
SchedulerTiming = tuple[int, ...]
DRIVERS_TIMING: SchedulerTiming = ()


class Scheduler(StrEnum):
    """The vGPU scheduler's policies."""

    BEST_EFFORT = "best-effort"
    EQUAL_SHARE = "equal-share"
    FIXED_SHARE = "fixed-share"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGoal:
    """One GPU instance. ``start`` None leaves the place to us; ``compute`` names its compute
    instances (``1c.3g.20gb``, or the profile's own name for a full-size one), none for a vGPU.
    """

    profile: str
    start: int | None = None
    compute: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLayout:
    """The wanted partitioning of one GPU; None leaves that part as it is.

    ``vfs`` is a count or ``VFS_MAX``. ``instances`` () means no declared instance at all.
    ``scheduler_timing`` is declared with a ``scheduler`` alone, () for the driver's own.
    ``power_limit`` is in watts, or ``POWER_DEFAULT``; ``locked_clocks`` () unlocks them.
    """

    mig: bool | None = None
    vfs: int | None = None
    mixed_size: bool | None = None
    instances: tuple[InstanceGoal, ...] | None = None
    scheduler: Scheduler | None = None
    power_limit: int | None = None
    locked_clocks: ClockRange | None = None
    scheduler_timing: SchedulerTiming | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRule:
    """``layout`` for the GPUs of these models (catalogue keys) or at these PCI addresses.

    Without either it is for every GPU of the host. The first rule that matches a GPU wins.
    """

    layout: GpuLayout
    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutSpec:
    """``kind: Layout``: rules for the named hosts, or for those that carry all the labels."""

    name: str
    rules: tuple[LayoutRule, ...]
    hosts: tuple[str, ...] = ()
    host_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRecord:
    """The goal last applied to a GPU, as the ledger keeps it.

    ``settled`` False: a change is under way or was cut, and the GPU takes no VM until it is done.
    """

    gpu: str
    host: str
    layout: str
    goal: GpuLayout
    operation: str
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMigMode:
    """Turn MIG mode on or off; a reset of that one GPU is part of it where the mode is pending."""

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVfs:
    """Turn VFs on (``count``) or off (0). Rebinds the driver: GPU instances and mixed-size go."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMixedSize:
    """Turn mixed-size mode on or off."""

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScheduler:
    """Choose the vGPU scheduler's policy, and its timing where that is declared."""

    policy: Scheduler
    timing: SchedulerTiming | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyInstance:
    """Destroy a GPU instance with its compute instances."""

    id: int
    profile: str
    profile_id: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstance:
    """Make a GPU instance at ``start``, with compute instances of these profile ids."""

    profile: str
    profile_id: int
    start: int
    size: int
    compute: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetGpu:
    """Reset the GPU: its GPU instances and mixed-size mode are gone, and its VFs are off before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPowerLimit:
    """Set the power limit in watts; ``before`` is what it was, for the undo."""

    watts: int
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockClocks:
    """Lock the clocks to a range in MHz, or unlock them; ``before`` is what it was."""

    range: ClockRange
    before: ClockRange = UNLOCKED


PartChange = (
    SetMigMode
    | SetVfs
    | SetMixedSize
    | SetScheduler
    | DestroyInstance
    | CreateInstance
    | ResetGpu
    | SetPowerLimit
    | LockClocks
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInstance:
    """A declared GPU instance in its place; ``compute`` are profile ids, none: not declared."""

    profile_id: int
    start: int
    size: int
    compute: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLayout:
    """What a host keeps of a GPU's layout for its next boot; None: not declared.

    ``vfs`` is a count.
    """

    mig: bool | None = None
    vfs: int | None = None
    mixed_size: bool | None = None
    scheduler: Scheduler | None = None
    instances: tuple[KeptInstance, ...] | None = None
    power_limit: int | None = None
    locked_clocks: ClockRange | None = None
    scheduler_timing: SchedulerTiming | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChange:
    """What applying a layout means for one GPU.

    ``differences`` say how the GPU is not as declared, ``changes`` what would be done, in order.
    ``keep`` is what its host would keep for its next boot, written down before anything else;
    None: it does already. ``refused`` is why it cannot be done now (then ``changes`` is empty),
    with ``holders`` the VMs and foreign things that stand in the way.
    """

    host: str
    gpu: str
    device: str
    model: str
    layout: str
    goal: GpuLayout
    differences: tuple[str, ...] = ()
    changes: tuple[PartChange, ...] = ()
    keep: KeptLayout | None = None
    refused: str = ""
    next: str = ""
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPlan:
    """What ``layout apply`` would do: GPUs that differ, and how many are as declared.

    ``warnings`` name hosts that could not be read.
    """

    gpus: tuple[GpuChange, ...] = ()
    unchanged: int = 0
    warnings: tuple[str, ...] = ()

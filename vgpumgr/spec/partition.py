"""What contradicts itself in the partitioning of one GPU, whatever the board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr.model.layout import GpuLayout, Scheduler
from vgpumgr.spec.problems import Path

_NOTHING = GpuLayout()


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that is broken, and the key path below the layout rule where it shows."""

    message: str
    at: Path = ()


def faults(layout: GpuLayout) -> Iterator[Fault]:
    """The contradictions within one GPU's layout.

    Source: NVIDIA AI Enterprise user guide (mixed-size mode: SR-IOV boards, no fixed share, lost
    when VFs go off); a GPU hosts time-sliced or MIG-backed vGPUs, never both.
    """
    if layout == _NOTHING:
        yield Fault("says nothing: add mig, vfs, mixed_size, instances or scheduler")
    if layout.instances and layout.mig is False:
        yield Fault("there are no GPU instances with mig: false", ("instances",))
    if not layout.mixed_size:
        return
    if layout.mig:
        yield Fault("mixed-size vGPUs are time-sliced: no GPU has them with MIG", ("mixed_size",))
    if layout.vfs == 0:
        yield Fault("mixed-size mode is lost without VFs: write vfs: max", ("mixed_size",))
    if layout.scheduler is Scheduler.FIXED_SHARE:
        yield Fault("the fixed-share scheduler does not work with mixed_size", ("scheduler",))

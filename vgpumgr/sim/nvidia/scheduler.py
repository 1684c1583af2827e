"""How time-sliced vGPUs share a GPU: mixed-size mode and the scheduler's policy."""

from __future__ import annotations

from vgpumgr.model.layout import Scheduler
from vgpumgr.sim.nvidia.refused import Refused, Status


class Sharing:
    """Both are lost when the driver lets go of the GPU, and neither changes under vGPUs.

    ``capable``: the board and its driver have mixed-size mode.
    """

    def __init__(self, *, capable: bool) -> None:
        self.capable = capable
        self.lose()

    def lose(self) -> None:
        """Back to the driver's defaults."""
        self.mixed = False
        self.policy = Scheduler.BEST_EFFORT

    def set_mixed(self, wanted: bool, *, idle: bool) -> None:
        """NOT_SUPPORTED without the mode or under fixed share; IN_USE with vGPUs or clients."""
        if not self.capable or (wanted and self.policy is Scheduler.FIXED_SHARE):
            raise Refused(Status.NOT_SUPPORTED)
        if not idle:
            raise Refused(Status.IN_USE)
        self.mixed = wanted

    def set_policy(self, wanted: Scheduler, *, empty: bool) -> None:
        """NOT_SUPPORTED while any vGPU exists (nvml.h), and fixed share in mixed-size mode."""
        if not empty or (self.mixed and wanted is Scheduler.FIXED_SHARE):
            raise Refused(Status.NOT_SUPPORTED)
        self.policy = wanted

"""The loads of VMs that `serve` keeps on this machine, for the engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vgpumgr.model.load_scale import NO_LOADS, MeasuredLoads

if TYPE_CHECKING:
    from vgpumgr.model.host_sample import FleetSample
    from vgpumgr.telemetry.telemetry_files import TelemetryFiles


class KeptLoads:
    """Indexed once for each time that they were renewed."""

    def __init__(self, files: TelemetryFiles) -> None:
        self._files = files
        self._indexed: tuple[FleetSample, MeasuredLoads] | None = None

    def newest(self) -> MeasuredLoads:
        """The newest; NO_LOADS where there are none of now."""
        sample = self._files.sample(time.time())
        if sample is None:
            return NO_LOADS
        indexed = self._indexed
        if indexed is None or indexed[0] is not sample:
            loads = MeasuredLoads(at=sample.at, vms={each.vm: each for each in sample.loads})
            indexed = self._indexed = (sample, loads)
        return indexed[1]

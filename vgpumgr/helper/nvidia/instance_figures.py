"""The figures of a GPU's MIG instances by NVML: memory of those with a device on the host, and the
share of their multiprocessors at work between two samples (Hopper and later).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import mig_state
from vgpumgr.helper.nvidia.gpu_figures import Figures
from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# There are to be at least 100 ms between two samples (nvml.h, nvmlGpmMetricsGet).
BETWEEN_SAMPLES_S = 0.12
_MYRIAD_PER_PERCENT = 100


class InstanceSamples:
    """The instances of one GPU, each with its first sample of performance where there is one."""

    def __init__(self, session: NvmlSession, gpu: Any) -> None:
        self._session = session
        self._gpu = gpu
        self._ids: list[int] | None = []
        self._first: dict[int, Any] = {}
        try:
            self._ids = [each.id for each in mig_state.instances(session, gpu)]
        except HelperError:
            self._ids = None
        if self._ids and self._has_samples():
            samples = ((number, self._sample(number)) for number in self._ids)
            self._first = {number: sample for number, sample in samples if sample is not None}

    @property
    def waits(self) -> bool:
        """Is there anything that a second sample will tell?"""
        return bool(self._first)

    def read(self) -> list[dict[str, Any]] | None:
        """One entry for each instance; None where they could not be read."""
        if self._ids is None:
            return None
        memory = self._memory() if self._ids else {}
        return [{"id": each, "figures": self._figures(each, memory)} for each in self._ids]

    def _figures(self, number: int, memory: dict[int, int]) -> Figures:
        found = {"framebuffer_used_bytes": memory[number]} if number in memory else {}
        share = self._share(number)
        return found if share is None else {**found, "sm_per_myriad": share}

    def _memory(self) -> dict[int, int]:
        """By GPU instance: devices of one instance share its memory."""
        found: dict[int, int] = {}
        for index in range(self._session.ask("nvmlDeviceGetMaxMigDeviceCount", self._gpu) or 0):
            device = self._session.ask("nvmlDeviceGetMigDeviceHandleByIndex", self._gpu, index)
            if device is None:
                continue
            number = self._session.ask("nvmlDeviceGetGpuInstanceId", device)
            memory = self._session.ask("nvmlDeviceGetMemoryInfo", device)
            if number is not None and memory is not None:
                found[int(number)] = max(found.get(int(number), 0), int(memory.used))
        return found

    def _has_samples(self) -> bool:
        support = self._session.ask("nvmlGpmQueryDeviceSupport", self._gpu)
        return bool(support is not None and support.isSupportedDevice)

    def _sample(self, number: int) -> Any:
        made = self._session.ask("nvmlGpmSampleAlloc")
        if made is None:
            return None
        if self._session.ask("nvmlGpmMigSampleGet", self._gpu, number, made) is None:
            self._session.ask("nvmlGpmSampleFree", made)
            return None
        return made

    def _share(self, number: int) -> int | None:
        first = self._first.pop(number, None)
        second = self._sample(number) if first is not None else None
        share = None if second is None else self._between(first, second)
        for each in (first, second):
            if each is not None:
                self._session.ask("nvmlGpmSampleFree", each)
        return share

    def _between(self, first: Any, second: Any) -> int | None:
        library = self._session.library
        asked = library.c_nvmlGpmMetricsGet_t()
        asked.version = library.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics, asked.sample1, asked.sample2 = 1, first, second
        asked.metrics[0].metricId = library.NVML_GPM_METRIC_SM_UTIL
        if self._session.ask("nvmlGpmMetricsGet", asked) is None:
            return None
        told = asked.metrics[0]
        with suppress(ValueError):  # the library's NaN: nothing ran in between
            if told.nvmlReturn == library.NVML_SUCCESS:
                return round(float(told.value) * _MYRIAD_PER_PERCENT)
        return None

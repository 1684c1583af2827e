"""NVIDIA's library in memory that measures: its GPUs, their vGPUs and MIG instances at work."""

# ruff: noqa: N802, N803 -- the library's own names

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pynvml

from tests.unit.helper.nvml import FakeGpu, FakeNvml, error

# nvmlValueType_t: of most counters, of a limit, of a number that a driver tells as a double.
UINT, ULL, DOUBLE = 1, 3, 0
ALL_LINKS = 0xFFFFFFFF
GIB = 1 << 30


@dataclass
class FakeVgpu:
    """A running vGPU as the driver knows it."""

    number: int
    mdev: str | None
    vm: str
    used: int
    type_id: int = 801
    instance: int = 0xFFFFFFFF
    placement: int = 0xFFFF
    shares: tuple[int, int, int, int] = (40, 20, 5, 3)
    licence: int = 5
    expiry: tuple[int, ...] = (2027, 3, 1, 12, 30, 15, 2)
    sessions: int = 2
    fps: int = 60
    limit: int = 45


@dataclass
class Measured(FakeGpu):
    """``fields`` are field values by id and scope: the type of the value, and the value."""

    fields: dict[tuple[int, int], tuple[int, float]] = field(default_factory=dict)
    running: list[FakeVgpu] = field(default_factory=list)
    performance: dict[int, list[float]] = field(default_factory=dict)  # by GPU instance
    mig_devices: list[tuple[int, int]] = field(default_factory=list)  # GPU instance, bytes in use
    reasons: int = 0x44


class MeasuringNvml(FakeNvml):
    """``calls`` counts how often each function was called."""

    def __init__(self, *gpus: Measured) -> None:
        super().__init__(*gpus)
        self.calls: dict[str, int] = {}
        self.samples = 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml"):
            calls = object.__getattribute__(self, "calls")
            calls[name] = calls.get(name, 0) + 1
        return super().__getattribute__(name)

    # -- a GPU

    def nvmlDeviceGetVbiosVersion(self, handle: Measured) -> str:
        return "96.00.61.00.01"

    def nvmlDeviceGetFieldValues(self, handle: Any, fieldIds: list[Any]) -> Any:
        values = (pynvml.c_nvmlFieldValue_t * len(fieldIds))()
        for value, (number, scope) in zip(values, fieldIds, strict=True):
            kind, found = handle.fields.get((number, scope), (None, 0))
            value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if kind is None else 0
            value.valueType = kind or 0
            setattr(value.value, {UINT: "uiVal", ULL: "ullVal"}.get(kind, "dVal"), found)
        return values

    def nvmlDeviceGetUtilizationRates(self, handle: Measured) -> Any:
        if handle.mig and handle.mig[0]:
            raise error("NOT_SUPPORTED")
        rates = pynvml.c_nvmlUtilization_t()
        rates.gpu, rates.memory = 87, 31
        return rates

    def nvmlDeviceGetEncoderUtilization(self, handle: Measured) -> list[int]:
        return [12, 167000]

    def nvmlDeviceGetDecoderUtilization(self, handle: Measured) -> list[int]:
        return [4, 167000]

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        if isinstance(handle, tuple):  # a MIG device
            return self._memory(pynvml.c_nvmlMemory_t(), handle[1])
        if version is None:
            return self._memory(pynvml.c_nvmlMemory_t(), 9 * GIB)
        if "memory v2" in self.missing:
            raise error("ARGUMENT_VERSION_MISMATCH")
        memory = self._memory(pynvml.c_nvmlMemory_v2_t(), 9 * GIB)
        memory.reserved = GIB // 2
        return memory

    def _memory(self, memory: Any, used: int) -> Any:
        memory.total, memory.used = 80 * GIB, used
        return memory

    def nvmlDeviceGetTemperatureV(self, handle: Measured, sensor: int, version: int = 1) -> int:
        return 61

    def nvmlDeviceGetTemperature(self, handle: Measured, sensor: int) -> int:
        return 60

    def nvmlDeviceGetMarginTemperature(self, handle: Measured) -> int:
        return -2

    def nvmlDeviceGetTemperatureThreshold(self, handle: Measured, threshold: int) -> int:
        return [96, 93, 95, 85][threshold]

    def nvmlDeviceGetClockInfo(self, handle: Measured, type: int) -> int:
        return [0, 1410, 1593, 1275][type]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Measured) -> int:
        return 0x80

    def nvmlDeviceGetRowRemapperHistogram(self, device: Measured) -> Any:
        values = pynvml.c_nvmlRowRemapperHistogramValues()
        values.max, values.high, values.partial, values.low, values.none = 636, 3, 1, 0, 0
        return values

    def nvmlDeviceGetPowerUsage(self, handle: Measured) -> int:
        return 71_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Measured) -> int:
        return 5_000_000

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeGpu) -> int:
        return 300_000

    def nvmlDeviceGetPcieReplayCounter(self, handle: Measured) -> int:
        return 7

    # -- its vGPUs

    def nvmlDeviceGetActiveVgpus(self, handle: Measured) -> list[int]:
        return [each.number for each in handle.running]

    def nvmlDeviceGetVgpuInstancesUtilizationInfo(self, handle: Measured, timeStamp: int) -> Any:
        return self._samples(handle, pynvml.c_nvmlVgpuInstanceUtilizationInfo_v1_t)

    def nvmlDeviceGetVgpuUtilization(self, handle: Measured, timeStamp: int) -> Any:
        return self._samples(handle, pynvml.c_nvmlVgpuInstanceUtilizationSample_t)

    def _samples(self, handle: Measured, kind: Any) -> list[Any]:
        found = []
        for each in handle.running:
            sample = kind()
            sample.vgpuInstance = each.number
            for name, share in zip(("sm", "mem", "enc", "dec"), each.shares, strict=True):
                getattr(sample, f"{name}Util").uiVal = share
            found.append(sample)
        return found

    def _vgpu(self, number: int) -> FakeVgpu:
        running = [each for gpu in self.gpus.values() for each in getattr(gpu, "running", ())]
        return next(each for each in running if each.number == number)

    def nvmlVgpuInstanceGetType(self, vgpuInstance: int) -> int:
        return self._vgpu(vgpuInstance).type_id

    def nvmlVgpuInstanceGetUUID(self, vgpuInstance: int) -> str:
        return f"vgpu-{vgpuInstance}"

    def nvmlVgpuInstanceGetMdevUUID(self, vgpuInstance: int) -> str:
        mdev = self._vgpu(vgpuInstance).mdev
        if mdev is None:
            raise error("NOT_SUPPORTED")
        return mdev

    def nvmlVgpuInstanceGetVmID(self, vgpuInstance: int) -> tuple[bytes, int]:
        return self._vgpu(vgpuInstance).vm.encode(), pynvml.NVML_VGPU_VM_ID_UUID

    def nvmlVgpuInstanceGetGpuInstanceId(self, vgpuInstance: int) -> int:
        return self._vgpu(vgpuInstance).instance

    def nvmlVgpuInstanceGetPlacementId(self, vgpuInstance: int) -> int:
        return self._vgpu(vgpuInstance).placement

    def nvmlVgpuInstanceGetLicenseInfo(self, vgpuInstance: int) -> Any:
        vgpu, told = self._vgpu(vgpuInstance), pynvml.c_nvmlVgpuLicenseInfo_t()
        told.currentState, told.isLicensed = vgpu.licence, int(vgpu.licence == 5)
        names = ("year", "month", "day", "hour", "min", "sec", "status")
        for name, value in zip(names, vgpu.expiry, strict=True):
            setattr(told.licenseExpiry, name, value)
        return told

    def nvmlVgpuInstanceGetEncoderStats(self, vgpuInstance: int) -> tuple[int, int, int]:
        return self._vgpu(vgpuInstance).sessions, 30, 1200

    def nvmlVgpuInstanceGetFBCStats(self, vgpuInstance: int) -> Any:
        stats = pynvml.c_nvmlFBCStats_t()
        stats.sessionsCount, stats.averageFPS = 1, self._vgpu(vgpuInstance).fps
        return stats

    def nvmlVgpuInstanceGetFrameRateLimit(self, vgpuInstance: int) -> int:
        return self._vgpu(vgpuInstance).limit

    def _nvmlGetFunctionPointer(self, name: str) -> Any:
        """The C function itself: it fills in 64 bits, and answers with a code."""
        assert name == "nvmlVgpuInstanceGetFbUsage"
        if name in self.missing:
            raise error("FUNCTION_NOT_FOUND")

        def usage(number: int, place: Any) -> int:
            if name in self.fails:
                return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
            place._obj.value = self._vgpu(number).used
            return 0

        return usage

    # -- its MIG instances

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Measured) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Measured, index: int) -> Any:
        if index >= len(device.mig_devices):
            raise error("NOT_FOUND")
        return device.mig_devices[index]

    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        return int(device[0])

    def nvmlGpmQueryDeviceSupport(self, device: Measured) -> Any:
        support = pynvml.c_nvmlGpmSupport_t()
        support.isSupportedDevice = int(bool(device.performance))
        return support

    def nvmlGpmSampleAlloc(self) -> Any:
        self.samples += 1
        return pynvml.cast(self.samples, pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, gpmSample: Any) -> None:
        self.samples -= 1

    def nvmlGpmMigSampleGet(self, device: Measured, gpuInstanceId: int, gpmSample: Any) -> Any:
        if gpuInstanceId not in device.performance:
            raise error("NOT_SUPPORTED")
        self.last = device.performance[gpuInstanceId]
        return gpmSample

    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any:
        assert metricsGet.metrics[0].metricId == pynvml.NVML_GPM_METRIC_SM_UTIL
        metricsGet.metrics[0].value = self.last[0]
        return metricsGet

"""NVML's functions that measure: GPUs, their running vGPUs, MIG instances; what drivers refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from vgpumgr.sim.machine.pcie_links import best_generation, generation
from vgpumgr.sim.nvidia.gpu_activity import GpuActivity
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvml.c_arguments import Failed, check_version, number, place, put, put_handle
from vgpumgr.sim.nvml.handles import (
    HOST,
    active_vgpu,
    activity,
    compute,
    driver_branch,
    gpu,
    instance_handle,
    vgpu_number,
)

_MIB = 1 << 20
# Domains of clocks that a lock of the GPU's clocks holds: graphics and SM.
_GRAPHICS = {0, 1}
_RESERVED_MIB = 300
_NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
# Releases of the driver from which on a function is in the library (nvml.h's change log).
_VGPU_UTILIZATION_SINCE, _TEMPERATURE_V_SINCE = 545, 570


def _only_since(branch: int) -> None:
    if driver_branch() < branch:
        raise Failed(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _whole(handle: Any) -> GpuActivity:
    """The GPU's own; NOT_SUPPORTED with MIG on."""
    if gpu(handle).mig.enabled:
        raise Failed(_NOT_SUPPORTED)
    return activity(handle)


def _utilization(handle: Any, rates: Any) -> None:
    share = _whole(handle).share()
    place(rates).gpu, place(rates).memory = round(100 * share), round(50 * share)


def _encoder(handle: Any, share: Any, period: Any) -> None:
    put(share, round(20 * _whole(handle).share()))
    put(period, 167_000)


def _decoder(handle: Any, share: Any, period: Any) -> None:
    put(share, round(10 * _whole(handle).share()))
    put(period, 167_000)


def _memory_v2(handle: Any, memory: Any) -> None:
    """The driver's own part is no part of what is used."""
    found, asked = place(memory), gpu(handle)
    check_version(found, pynvml.nvmlMemory_v2)
    running = sum(each.type.fb_mib for each in asked.vgpus if each.vm)
    found.total, found.reserved = asked.board.memory_mib * _MIB, _RESERVED_MIB * _MIB
    found.used = min(found.total - found.reserved, running * _MIB)
    found.free = found.total - found.used - found.reserved


def _temperature(handle: Any, _sensor: Any, celsius: Any) -> None:
    put(celsius, activity(handle).celsius())


def _temperature_versioned(handle: Any, temperature: Any) -> None:
    _only_since(_TEMPERATURE_V_SINCE)
    check_version(place(temperature), pynvml.nvmlTemperature_v1)
    place(temperature).temperature = activity(handle).celsius()


def _margin(handle: Any, margin: Any) -> None:
    """From Ada on."""
    _only_since(_TEMPERATURE_V_SINCE)
    asked = activity(handle)
    if not asked.since("ada"):
        raise Failed(_NOT_SUPPORTED)
    place(margin).marginTemperature = asked.slowdown_celsius() - asked.celsius()


def _threshold(handle: Any, threshold: Any, celsius: Any) -> None:
    asked = activity(handle)
    slowdown = asked.slowdown_celsius()
    known = {0: slowdown + 5, 1: slowdown, 3: slowdown - 5}
    if asked.has_hbm:
        known[2] = 95
    put(celsius, _found(known, number(threshold)))


def _found(known: Mapping[int, int], asked: int) -> int:
    if asked not in known:
        raise Failed(_NOT_SUPPORTED)
    return known[asked]


def _clock(handle: Any, kind: Any, megahertz: Any) -> None:
    asked = activity(handle)
    ends = {0: (210, 1800), 1: (210, 1800), 2: (1200, 1600), 3: (500, 1500)}
    if number(kind) not in ends:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    found = asked.megahertz(*ends[number(kind)])
    put(megahertz, asked.gpu.power.held(found) if number(kind) in _GRAPHICS else found)


def _reasons(handle: Any, reasons: Any) -> None:
    put(reasons, activity(handle).clock_reasons())


def _histogram(handle: Any, values: Any) -> None:
    """From Ampere on."""
    asked = activity(handle)
    if not asked.since("ampere"):
        raise Failed(_NOT_SUPPORTED)
    rows = asked.gpu.health.rows
    lost = int(rows.failure)
    found = place(values)
    found.max, found.high = 640 - rows.uncorrectable - lost, rows.uncorrectable
    found.partial, found.low, found.none = 0, 0, lost


def _power(handle: Any, milliwatts: Any) -> None:
    put(milliwatts, activity(handle).milliwatts())


def _energy(handle: Any, millijoules: Any) -> None:
    """From Volta on."""
    asked = activity(handle)
    if not asked.since("volta"):
        raise Failed(_NOT_SUPPORTED)
    put(millijoules, int(asked.meters().energy_mj))


def _enforced_limit(handle: Any, milliwatts: Any) -> None:
    put(milliwatts, gpu(handle).power.limit_mw)


def _replays(handle: Any, count: Any) -> None:
    gpu(handle)
    put(count, 0)


def _link_generation(handle: Any, found: Any) -> None:
    put(found, generation(activity(handle)))


def _best_link_generation(handle: Any, found: Any) -> None:
    put(found, best_generation(activity(handle)))


def _vbios(handle: Any, buffer: Any, _length: Any) -> None:
    buffer.value = f"9{gpu(handle).serial[-1]}.00.41.00.0{gpu(handle).serial[-2]}".encode()


DEVICE_FIGURES: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetUtilizationRates": _utilization,
    "nvmlDeviceGetEncoderUtilization": _encoder,
    "nvmlDeviceGetDecoderUtilization": _decoder,
    "nvmlDeviceGetMemoryInfo_v2": _memory_v2,
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetTemperatureV": _temperature_versioned,
    "nvmlDeviceGetMarginTemperature": _margin,
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetCurrentClocksEventReasons": _reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _reasons,
    "nvmlDeviceGetRowRemapperHistogram": _histogram,
    "nvmlDeviceGetPowerUsage": _power,
    "nvmlDeviceGetTotalEnergyConsumption": _energy,
    "nvmlDeviceGetEnforcedPowerLimit": _enforced_limit,
    "nvmlDeviceGetPcieReplayCounter": _replays,
    "nvmlDeviceGetVbiosVersion": _vbios,
    "nvmlDeviceGetCurrPcieLinkGeneration": _link_generation,
    "nvmlDeviceGetMaxPcieLinkGeneration": _best_link_generation,
}


def _shares(handle: Any, info: Any) -> None:
    """The newest sample of every running vGPU: without room their number alone."""
    _only_since(_VGPU_UTILIZATION_SINCE)
    found = place(info)
    check_version(found, pynvml.VgpuInstancesUtilizationInfo_v1)
    asked = gpu(handle)
    running = [each for each in asked.vgpus if each.vm]
    room = found.vgpuInstanceCount if found.vgpuUtilArray else 0
    found.vgpuInstanceCount = len(running)
    if len(running) > room:
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    for index, each in enumerate(running):
        _fill(found.vgpuUtilArray[index], asked, each)


def _shares_before(handle: Any, _since: Any, _kind: Any, count: Any, samples: Any) -> None:
    asked = gpu(handle)
    running = [each for each in asked.vgpus if each.vm]
    room = number(place(count)) if samples is not None else 0
    put(count, len(running))
    if len(running) > room:
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    for index, each in enumerate(running):
        _fill(samples[index], asked, each)


def _fill(sample: Any, asked: NvidiaGpu, vgpu: Any) -> None:
    load = HOST.get().activities[asked.address].load(vgpu)
    sample.vgpuInstance = vgpu_number(asked, vgpu)
    sample.timeStamp = int(HOST.get().clock.now() * 1e6)
    sample.smUtil.uiVal, sample.memUtil.uiVal = round(100 * load.sm), round(100 * load.memory)
    sample.encUtil.uiVal, sample.decUtil.uiVal = (
        round(100 * load.encoder),
        round(100 * load.decoder),
    )


def _licence(vgpu: Any, info: Any) -> None:
    """A guest without a licence is held to a few frames after 20 minutes."""
    found, (_, asked) = place(info), active_vgpu(vgpu)
    licensed = not asked.unlicensed
    found.isLicensed = int(licensed)
    found.currentState = (
        pynvml.NVML_GRID_LICENSE_STATE_LICENSED
        if licensed
        else pynvml.NVML_GRID_LICENSE_STATE_UNLICENSED_RESTRICTED
    )
    at = found.licenseExpiry
    at.year, at.month, at.day, at.hour, at.min, at.sec, at.status = 2030, 1, 1, 0, 0, 0, 2


def _encoder_stats(vgpu: Any, sessions: Any, fps: Any, latency: Any) -> None:
    owner, asked = active_vgpu(vgpu)
    at_work = HOST.get().activities[owner.address].load(asked).encoder > 0.02
    put(sessions, int(at_work))
    put(fps, 60 * at_work)
    put(latency, 4000 * at_work)


def _capture_stats(vgpu: Any, stats: Any) -> None:
    owner, asked = active_vgpu(vgpu)
    share = HOST.get().activities[owner.address].load(asked).sm
    found = place(stats)
    found.sessionsCount, found.averageFPS, found.averageLatency = 1, round(60 * share), 900


def _frame_rate_limit(vgpu: Any, limit: Any) -> None:
    found = active_vgpu(vgpu)[1]
    if found.params.get("frame_rate_limiter") == "0" or found.type.frl_fps is None:
        raise Failed(_NOT_SUPPORTED)
    put(limit, found.type.frl_fps)


VGPU_FIGURES: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetVgpuInstancesUtilizationInfo": _shares,
    "nvmlDeviceGetVgpuUtilization": _shares_before,
    "nvmlVgpuInstanceGetLicenseInfo_v2": _licence,
    "nvmlVgpuInstanceGetEncoderStats": _encoder_stats,
    "nvmlVgpuInstanceGetFBCStats": _capture_stats,
    "nvmlVgpuInstanceGetFrameRateLimit": _frame_rate_limit,
}


def _mig_devices(asked: NvidiaGpu) -> list[int]:
    """The handles of devices: a compute instance each, as the host has made them."""
    if not asked.mig.enabled:
        return []
    return [
        instance_handle(asked, inside) | made.id + 1 << 16
        for inside in asked.grid().instances.values()
        for made in inside.compute.values()
    ]


def _most_mig_devices(handle: Any, count: Any) -> None:
    asked = gpu(handle)
    put(count, 7 if asked.mig.grid is not None else 0)


def _mig_device(handle: Any, index: Any, device: Any) -> None:
    found = _mig_devices(gpu(handle))
    if number(index) >= len(found):
        raise Failed(pynvml.NVML_ERROR_NOT_FOUND)
    put_handle(device, found[number(index)])


def _instance_id(handle: Any, found: Any) -> None:
    put(found, compute(handle)[1].id)


_numbers = itertools.count(1)
_samples: dict[int, tuple[NvidiaGpu, int] | None] = {}


def _has_samples(handle: Any, support: Any) -> None:
    """From Hopper on."""
    place(support).isSupportedDevice = int(activity(handle).since("hopper"))


def _new_sample(sample: Any) -> None:
    made = next(_numbers)
    _samples[made] = None
    put_handle(sample, made)


def _sample_of_instance(handle: Any, instance_id: Any, sample: Any) -> None:
    asked = gpu(handle)
    if not activity(handle).since("hopper"):
        raise Failed(_NOT_SUPPORTED)
    asked.grid().instance(number(instance_id))
    _samples[number(sample)] = (asked, number(instance_id))


def _between_samples(metrics: Any) -> None:
    """The share of an instance: that of its vGPU, of as much as its slices are."""
    asked = place(metrics)
    found = _samples.get(number(asked.sample1))
    if found is None or found != _samples.get(number(asked.sample2)):
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    owner, instance_id = found
    guests = [each for each in owner.vgpus if each.vm and each.instance_id == instance_id]
    loads = [HOST.get().activities[owner.address].load(each).sm for each in guests]
    for index in range(asked.numMetrics):
        known = asked.metrics[index].metricId == pynvml.NVML_GPM_METRIC_SM_UTIL
        asked.metrics[index].nvmlReturn = pynvml.NVML_SUCCESS if known else _NOT_SUPPORTED
        asked.metrics[index].value = min(100.0, 100.0 * sum(loads))


def _free_sample(sample: Any) -> None:
    if _samples.pop(number(sample), 0) == 0:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)


INSTANCE_FIGURES: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetMaxMigDeviceCount": _most_mig_devices,
    "nvmlDeviceGetMigDeviceHandleByIndex": _mig_device,
    "nvmlDeviceGetGpuInstanceId": _instance_id,
    "nvmlGpmQueryDeviceSupport": _has_samples,
    "nvmlGpmSampleAlloc": _new_sample,
    "nvmlGpmMigSampleGet": _sample_of_instance,
    "nvmlGpmMetricsGet": _between_samples,
    "nvmlGpmSampleFree": _free_sample,
}

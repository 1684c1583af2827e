"""NVIDIA's library in memory: real nvidia-ml-py's structs, constants and errors, our GPUs."""

# ruff: noqa: N802, N803, N815 -- the library's own names

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pynvml


@dataclass(frozen=True)
class Profile:
    id: int
    name: str
    slices: int
    size: int
    starts: tuple[int, ...]


# The A100's, by NVML's own enumeration (behaviour 8 and the catalogue).
A100 = {
    0x0: Profile(19, "1g.10gb", 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    0x1: Profile(14, "2g.20gb", 2, 2, (0, 2, 4)),
    0x2: Profile(9, "3g.40gb", 3, 4, (0, 4)),
    0x4: Profile(0, "7g.80gb", 7, 8, (0,)),
}


@dataclass
class Gi:
    id: int
    profile: Profile
    start: int
    computes: dict[int, int] = field(default_factory=dict)  # id → profile id
    busy: bool = False


@dataclass
class FakeGpu:
    """What the driver knows of one GPU; None: NVML says Not Supported."""

    address: str
    mig: tuple[int, int] | None = (0, 0)
    needs_reset: bool = False
    instances: dict[int, Gi] = field(default_factory=dict)
    mixed: int | None = 0
    policy: int | None = 1
    timing: tuple[int, ...] = ()
    arr: str = "yes"
    caps: dict[int, int] = field(default_factory=lambda: {0: 1, 2: 1})
    links: int = 0
    module_id: int | None = None
    fabric_state: int | None = None
    recovery: int = 0
    rows: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    retired: int = 0
    fields: dict[int, int] = field(default_factory=dict)
    reasons: int = 1
    generations: tuple[int, int] = (1, 4)
    sram_exceeded: bool = False
    lost: bool = False
    in_use: set[str] = field(default_factory=set)  # functions that answer IN_USE
    next_id: int = 7
    limits: tuple[int, int, int] | None = None  # least, most, default in mW
    limit: int = 0
    clocks: tuple[int, int] | None = None
    persistent: int = 0


def error(name: str) -> pynvml.NVMLError:
    return pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{name}"))


# vGPU types: their names, their sizes in GiB, and the GPU-instance profiles they lie in.
TYPES = {
    801: ("GRID A100D-10C", 10, 0xFFFFFFFF),
    802: ("GRID A100D-1-10C", 10, 19),
    803: ("GRID A100D-7-80C", 80, 0),
}


class FakeNvml:
    """Stands in for the module pynvml; what it does not have is FunctionNotFound.

    ``answers`` are other results of functions, ``fails`` the names of the codes they fail with.
    """

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = {gpu.address: gpu for gpu in gpus}
        self.answers: dict[str, Any] = {}
        self.fails: dict[str, str] = {}
        self.missing: set[str] = set()
        self.open = 0
        self.tells_while_off = False
        self.chosen_start: int | None = None
        self.handles: dict[int, Any] = {}

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return object.__getattribute__(self, name)
        if name in self.missing or name not in dir(type(self)):
            return _raiser("FUNCTION_NOT_FOUND")
        if name in self.fails:
            return _raiser(self.fails[name])
        if name in self.answers:
            return lambda *_: self.answers[name]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(pynvml, name)

    # -- the library and its GPUs

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54.16"

    def nvmlDeviceGetHandleByPciBusId(self, pciBusId: str) -> FakeGpu:
        assert self.open, "no session is open"
        domain, _, rest = pciBusId.partition(":")
        assert len(domain) == 8
        gpu = self.gpus.get(f"{domain[4:]}:{rest}")
        if gpu is None:
            raise error("NOT_FOUND")
        if gpu.lost:
            raise error("GPU_IS_LOST")
        return gpu

    # -- power

    def _limits(self, handle: FakeGpu) -> tuple[int, int, int]:
        if handle.limits is None:
            raise error("NOT_SUPPORTED")
        return handle.limits

    def nvmlDeviceGetPowerManagementLimitConstraints(self, handle: FakeGpu) -> list[int]:
        return list(self._limits(handle)[:2])

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: FakeGpu) -> int:
        return self._limits(handle)[2]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeGpu) -> int:
        self._limits(handle)
        return handle.limit

    def nvmlDeviceSetPowerManagementLimit(self, handle: FakeGpu, limit: int) -> None:
        least, most, _ = self._limits(handle)
        if not least <= limit <= most:
            raise error("INVALID_ARGUMENT")
        handle.limit = limit

    def nvmlDeviceSetGpuLockedClocks(
        self, handle: FakeGpu, minGpuClockMHz: int, maxGpuClockMHz: int
    ) -> None:
        handle.clocks = (minGpuClockMHz, maxGpuClockMHz)

    def nvmlDeviceResetGpuLockedClocks(self, handle: FakeGpu) -> None:
        handle.clocks = None

    def nvmlDeviceSetPersistenceMode(self, handle: FakeGpu, mode: int) -> None:
        handle.persistent = mode

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return f"GPU-{handle.address[5:7]}"

    def nvmlDeviceGetSerial(self, handle: FakeGpu) -> str:
        return "0324"

    def nvmlDeviceGetName(self, handle: FakeGpu) -> bytes:
        return b"NVIDIA A100"

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu, version: int | None = None) -> Any:
        memory = pynvml.c_nvmlMemory_t()
        memory.total = 81920 << 20
        return memory

    def nvmlDeviceGetEccMode(self, handle: FakeGpu) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetModuleId(self, handle: FakeGpu, moduleId: Any) -> int:
        if handle.module_id is None:
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        moduleId._obj.value = handle.module_id
        return 0

    def nvmlDeviceGetGpuFabricInfoV(self, device: FakeGpu, gpuFabricInfo: Any) -> int:
        if device.fabric_state is None:
            raise error("NOT_SUPPORTED")
        gpuFabricInfo._obj.state = device.fabric_state
        return 0

    nvmlDeviceGetGpuFabricInfo = nvmlDeviceGetGpuFabricInfoV

    def nvmlDeviceGetNvLinkState(self, device: FakeGpu, link: int) -> int:
        if not device.links:
            raise error("NOT_SUPPORTED")
        if link > device.links:
            raise error("INVALID_ARGUMENT")
        return int(link < device.links)  # the last one is down

    def nvmlDeviceGetFieldValues(self, handle: FakeGpu, fieldIds: list[int]) -> Any:
        values = (pynvml.c_nvmlFieldValue_t * len(fieldIds))()
        told = {pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: handle.recovery, **handle.fields}
        for value, number in zip(values, fieldIds, strict=True):
            value.nvmlReturn = 0 if number in told else pynvml.NVML_ERROR_NOT_SUPPORTED
            value.value.uiVal = told.get(number, 7)
        return values

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeGpu) -> int:
        return handle.reasons

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: FakeGpu) -> int:
        return handle.generations[0]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: FakeGpu) -> int:
        return handle.generations[1]

    def nvmlDeviceGetSramEccErrorStatus(self, device: FakeGpu, status: Any) -> int:
        status._obj.bThresholdExceeded = int(device.sram_exceeded)
        return 0

    def nvmlDeviceGetRemappedRows(self, device: FakeGpu) -> tuple[int, int, int, int]:
        if device.rows is None:
            raise error("NOT_SUPPORTED")
        return device.rows

    def nvmlDeviceGetRetiredPagesPendingStatus(self, device: FakeGpu) -> int:
        return device.retired

    # -- sharing

    def nvmlDeviceGetVgpuHeterogeneousMode(self, handle: FakeGpu) -> int:
        if handle.mixed is None or (handle.mig and handle.mig[0]):
            raise error("NOT_SUPPORTED")
        return handle.mixed

    def nvmlDeviceSetVgpuHeterogeneousMode(self, handle: FakeGpu, heterogeneous_mode: int) -> int:
        self._may(handle, "mixed")
        handle.mixed = heterogeneous_mode
        return 0

    def nvmlDeviceGetVgpuSchedulerState(self, handle: FakeGpu) -> Any:
        if handle.policy is None:
            raise error("NOT_SUPPORTED")
        state = pynvml.c_nvmlVgpuSchedulerGetState_t()
        state.schedulerPolicy = handle.policy
        match handle.timing:
            case (slice_ns,):
                state.arrMode = 1
                state.schedulerParams.vgpuSchedData.timeslice = slice_ns
            case (frequency, factor):
                state.arrMode = 2
                state.schedulerParams.vgpuSchedDataWithARR.timeslice = 10**9 // frequency
                state.schedulerParams.vgpuSchedDataWithARR.avgFactor = factor
        return state

    def nvmlDeviceGetVgpuSchedulerCapabilities(self, handle: FakeGpu) -> Any:
        if handle.policy is None or not handle.arr:
            raise error("NOT_SUPPORTED")
        found = pynvml.c_nvmlVgpuSchedulerCapabilities_t()
        found.minTimeslice, found.maxTimeslice = 1_000_000, 30_000_000
        found.isArrModeSupported = int(handle.arr == "yes")
        found.minFrequencyForARR, found.maxFrequencyForARR = 63, 960
        found.minAvgFactorForARR, found.maxAvgFactorForARR = 1, 60
        return found

    def nvmlDeviceSetVgpuSchedulerState(self, handle: FakeGpu, sched_state: Any) -> int:
        assert isinstance(sched_state, pynvml.c_nvmlVgpuSchedulerSetState_t)
        self._may(handle, "scheduler")
        handle.policy = sched_state.schedulerPolicy
        params = sched_state.schedulerParams
        handle.timing = {
            0: (),
            1: (params.vgpuSchedData.timeslice,),
            2: (params.vgpuSchedDataWithARR.frequency, params.vgpuSchedDataWithARR.avgFactor),
        }[sched_state.enableARRMode]
        return 0

    def nvmlDeviceGetVgpuCapabilities(self, handle: FakeGpu, capability: int) -> int:
        if capability not in handle.caps:
            raise error("NOT_SUPPORTED")
        return handle.caps[capability]

    # -- MIG

    def nvmlDeviceGetMigMode(self, device: FakeGpu) -> list[int]:
        if device.mig is None:
            raise error("NOT_SUPPORTED")
        return list(device.mig)

    def nvmlDeviceSetMigMode(self, device: FakeGpu, mode: int) -> int:
        self._may(device, "mig")
        assert device.mig is not None
        device.mig = (device.mig[0] if device.needs_reset else mode, mode)
        return int(pynvml.NVML_ERROR_RESET_REQUIRED) if device.needs_reset else 0

    def nvmlDeviceGetGpuInstanceProfileInfo(
        self, device: FakeGpu, profile: int, version: int = 2
    ) -> Any:
        self._mig_on(device, telling=True)
        if profile not in A100:
            raise error("NOT_SUPPORTED")
        if version == 2 and "v2" in self.missing:
            raise error("FUNCTION_NOT_FOUND")
        kind = f"c_nvmlGpuInstanceProfileInfo_{'v2_' if version == 2 else ''}t"
        info = getattr(pynvml, kind)()
        info.id, info.sliceCount = A100[profile].id, A100[profile].slices
        if version == 2:
            info.name = f"MIG {A100[profile].name}".encode()
        return info

    def nvmlDeviceGetGpuInstanceRemainingCapacity(self, device: FakeGpu, profileId: int) -> int:
        profile = self._profile(device, profileId, telling=True)
        return sum(not self._taken(device, profile, start) for start in profile.starts)

    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, device: FakeGpu, profileId: int, placementsRef: Any, countRef: Any
    ) -> int:
        profile = self._profile(device, profileId, telling=True)
        countRef._obj.value = len(profile.starts)
        for index, start in enumerate(profile.starts):
            placementsRef[index].start, placementsRef[index].size = start, profile.size
        return 0

    def nvmlDeviceGetSupportedVgpus(self, handle: FakeGpu) -> list[int]:
        return [*TYPES]

    def nvmlVgpuTypeGetGpuInstanceProfileId(self, vgpuTypeId: int) -> int:
        return TYPES[vgpuTypeId][2]

    def nvmlVgpuTypeGetName(self, vgpuTypeId: int) -> str:
        return TYPES[vgpuTypeId][0]

    def nvmlVgpuTypeGetFramebufferSize(self, vgpuTypeId: int) -> int:
        return TYPES[vgpuTypeId][1] << 30

    def nvmlVgpuTypeGetMaxInstancesPerGpuInstance(self, vgpuTypeId: int) -> int:
        return 1

    def nvmlVgpuTypeGetMaxInstancesPerVm(self, vgpuTypeId: int) -> int:
        return 1

    def nvmlDeviceCreateGpuInstance(self, device: FakeGpu, profileId: int) -> Any:
        profile = self._profile(device, profileId)
        # The driver's choice is not the lowest place first (behaviour 8).
        free = [each for each in profile.starts if not self._taken(device, profile, each)]
        if not free:
            raise error("INSUFFICIENT_RESOURCES")
        return self._make(device, profile, max(free))

    def nvmlDeviceCreateGpuInstanceWithPlacement(
        self, device: FakeGpu, profileId: int, placement: Any
    ) -> Any:
        profile, start = self._profile(device, profileId), placement._obj.start
        if start not in profile.starts or placement._obj.size != profile.size:
            raise error("INVALID_ARGUMENT")
        if self._taken(device, profile, start):
            raise error("INSUFFICIENT_RESOURCES")
        return self._make(
            device, profile, start if self.chosen_start is None else self.chosen_start
        )

    def nvmlDeviceGetGpuInstances(
        self, device: FakeGpu, profileId: int, gpuInstancesRef: Any, countRef: Any
    ) -> int:
        found = [gi for gi in device.instances.values() if gi.profile.id == profileId]
        countRef._obj.value = len(found)
        for index, gi in enumerate(found):
            gpuInstancesRef[index] = self._pointer((device, gi), pynvml.c_nvmlGpuInstance_t)
        return 0

    def nvmlGpuInstanceGetInfo(self, gpuInstance: Any) -> Any:
        _, gi = self._of(gpuInstance)
        info = pynvml.c_nvmlGpuInstanceInfo_t()
        info.id, info.profileId = gi.id, gi.profile.id
        info.placement.start, info.placement.size = gi.start, gi.profile.size
        return info

    def nvmlGpuInstanceDestroy(self, gpuInstance: Any) -> int:
        device, gi = self._of(gpuInstance)
        if gi.computes or gi.busy:
            raise error("IN_USE")
        del device.instances[gi.id]
        return 0

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, device: Any, profile: int, engProfile: int, version: int = 2
    ) -> Any:
        _, gi = self._of(device)
        if profile > 2 or profile + 1 > gi.profile.slices:
            raise error("NOT_SUPPORTED")
        info = pynvml.c_nvmlComputeInstanceProfileInfo_t()
        info.id = profile
        return info

    def nvmlGpuInstanceGetComputeInstances(
        self, gpuInstance: Any, profileId: int, computeInstancesRef: Any, countRef: Any
    ) -> int:
        _, gi = self._of(gpuInstance)
        found = [number for number, profile in gi.computes.items() if profile == profileId]
        countRef._obj.value = len(found)
        for index, number in enumerate(found):
            pointer = self._pointer((gi, number), pynvml.c_nvmlComputeInstance_t)
            computeInstancesRef[index] = pointer
        return 0

    def nvmlGpuInstanceCreateComputeInstance(self, gpuInstance: Any, profileId: int) -> Any:
        _, gi = self._of(gpuInstance)
        if sum(each + 1 for each in gi.computes.values()) + profileId + 1 > gi.profile.slices:
            raise error("INSUFFICIENT_RESOURCES")
        gi.computes[len(gi.computes)] = profileId
        return self._pointer((gi, len(gi.computes) - 1), pynvml.c_nvmlComputeInstance_t)

    def nvmlComputeInstanceGetInfo(self, computeInstance: Any) -> Any:
        gi, number = self._of(computeInstance)
        info = pynvml.c_nvmlComputeInstanceInfo_t()
        info.id, info.profileId = number, gi.computes[number]
        return info

    def nvmlComputeInstanceDestroy(self, computeInstance: Any) -> int:
        gi, number = self._of(computeInstance)
        if gi.busy:
            raise error("IN_USE")
        del gi.computes[number]
        return 0

    # -- inside

    def _may(self, gpu: FakeGpu, what: str) -> None:
        if what in gpu.in_use:
            raise error("IN_USE")

    def _mig_on(self, gpu: FakeGpu, *, telling: bool = False) -> None:
        """From R550 on profiles are told with the mode off, too."""
        off = gpu.mig is not None and not gpu.mig[0] and telling and self.tells_while_off
        if gpu.mig is None or not (gpu.mig[0] or off):
            raise error("NOT_SUPPORTED")

    def _profile(self, gpu: FakeGpu, number: int, *, telling: bool = False) -> Profile:
        self._mig_on(gpu, telling=telling)
        return next(each for each in A100.values() if each.id == number)

    def _taken(self, gpu: FakeGpu, profile: Profile, start: int) -> bool:
        wanted = set(range(start, start + profile.size))
        return any(
            wanted & set(range(gi.start, gi.start + gi.profile.size))
            for gi in gpu.instances.values()
        )

    def _make(self, gpu: FakeGpu, profile: Profile, start: int) -> Any:
        gi = Gi(gpu.next_id, profile, start)
        gpu.next_id += 1
        gpu.instances[gi.id] = gi
        return self._pointer((gpu, gi), pynvml.c_nvmlGpuInstance_t)

    def _pointer(self, thing: Any, kind: Any) -> Any:
        number = len(self.handles) + 1
        self.handles[number] = thing
        return pynvml.cast(number, kind)

    def _of(self, handle: Any) -> Any:
        return self.handles[pynvml.cast(handle, pynvml.c_void_p).value]


def _raiser(code: str) -> Any:
    def fail(*_: Any) -> None:
        raise error(code)

    return fail

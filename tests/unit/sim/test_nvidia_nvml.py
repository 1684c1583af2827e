"""The NVML surface over the simulated GPU, through real nvidia-ml-py."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.unit.sim.nvidia_gpu import make, type_id
from vgpumgr import catalog
from vgpumgr.model.host import Versions
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvml.library import nvml_module

BUS_ID = "00000000:41:00.0"
BOARDS = [each for each in catalog.boards() if catalog.mig(each)]


class Asked:
    """A host with one board, the library for it, and the handle of its first GPU."""

    def __init__(self, board: str, driver: str = "580.105.06") -> None:
        boards = (SimBoard(board=board),)
        host = SimHost(name="h1", boards=boards, versions=Versions(driver=driver))
        self.kernel = Kernel(host, Durable("h1"))
        self.gpu: NvidiaGpu = next(iter(self.kernel.nvidia.values()))
        self.lib: Any = nvml_module(self.kernel)
        self.lib.nvmlInit()
        self.handle = self.lib.nvmlDeviceGetHandleByPciBusId(self.gpu.address)

    def list(self, function: str, kind: str, *given: Any) -> list[Any]:
        """Handles or placements into an array of ours."""
        array, count = (getattr(self.lib, kind) * 64)(), ctypes.c_uint(64)
        getattr(self.lib, function)(*given, array, ctypes.byref(count))
        return list(array[: count.value])

    def field(self, number: int) -> Any:
        return self.lib.nvmlDeviceGetFieldValues(self.handle, [number])[0]


@pytest.fixture
def a100() -> Asked:
    return Asked("A100-PCIE-80GB")


@pytest.fixture
def mig(a100: Asked) -> Asked:
    assert a100.lib.nvmlDeviceSetMigMode(a100.handle, 1) == a100.lib.NVML_SUCCESS
    return a100


def test_a_gpu_is_found_by_all_its_names(a100: Asked) -> None:
    lib = a100.lib
    assert lib.nvmlDeviceGetUUID(lib.nvmlDeviceGetHandleByUUID(a100.gpu.uuid)) == a100.gpu.uuid
    assert lib.nvmlDeviceGetSerial(lib.nvmlDeviceGetHandleBySerial(a100.gpu.serial))
    assert lib.nvmlDeviceGetHandleByPciBusId("0000:41:00.0")
    assert lib.nvmlDeviceGetIndex(a100.handle) == 0
    with pytest.raises(lib.NVMLError_NotFound):
        lib.nvmlDeviceGetHandleByPciBusId("00000000:42:00.0")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_every_profile_of_the_board_is_enumerated(board: catalog.Board) -> None:
    """behaviour §13: the enumeration 0..0x11 is not the id; NotSupported where absent."""
    asked = Asked(board.key)
    lib = asked.lib
    lib.nvmlDeviceSetMigMode(asked.handle, 1)
    found = {}
    for number in range(lib.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = lib.nvmlDeviceGetGpuInstanceProfileInfo(asked.handle, number)
        except lib.NVMLError_NotSupported:
            continue
        old = lib.nvmlDeviceGetGpuInstanceProfileInfo(asked.handle, number, version=1)
        by_id = lib.nvmlDeviceGetGpuInstanceProfileInfoById(asked.handle, info.id)
        assert (old.id, by_id.name) == (info.id, info.name)
        found[info.name.removeprefix("MIG ")] = info
    known = catalog.mig(board)
    assert known is not None
    assert {name: info.id for name, info in found.items()} == {
        each.name: each.id for each in known.profiles
    }
    for each in known.profiles:
        places = asked.list(
            "nvmlDeviceGetGpuInstancePossiblePlacements",
            "c_nvmlGpuInstancePlacement_t",
            asked.handle,
            each.id,
        )
        assert [(place.start, place.size) for place in places] == [
            (start, each.size) for start in each.starts
        ]
        assert found[each.name].sliceCount == each.gpu_slices
        assert lib.nvmlDeviceGetGpuInstanceRemainingCapacity(asked.handle, each.id) > 0


def test_engines_of_a_profile(a100: Asked) -> None:
    """catalogue: 3g.40gb of A100 80GB has 42 multiprocessors, 3 copy engines, 2 decoders."""
    info = a100.lib.nvmlDeviceGetGpuInstanceProfileInfo(a100.handle, 2)
    assert (info.id, info.memorySizeMB, info.instanceCount) == (9, 40192, 2)
    assert (info.multiprocessorCount, info.copyEngineCount, info.decoderCount) == (42, 3, 2)


def test_mig_off_answers_not_supported(a100: Asked) -> None:
    """behaviour §13: CreateGpuInstance is NotSupported with MIG off."""
    lib = a100.lib
    assert lib.nvmlDeviceGetMigMode(a100.handle) == [0, 0]
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceCreateGpuInstance(a100.handle, 19)
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetGpuInstanceRemainingCapacity(a100.handle, 19)
    with pytest.raises(lib.NVMLError_NotSupported):
        Asked("A40").lib.nvmlDeviceGetMigMode(a100.handle)


def test_a_pending_mode_is_a_status_and_no_error(a100: Asked) -> None:
    """behaviour §13: the status may be 19 or 16, without an exception; VFs on raise IN_USE."""
    lib = a100.lib
    a100.gpu.clients.add("dcgm")
    assert lib.nvmlDeviceSetMigMode(a100.handle, 1) == lib.NVML_ERROR_RESET_REQUIRED
    assert lib.nvmlDeviceGetMigMode(a100.handle) == [0, 1]
    a100.gpu.vfs_on = True
    with pytest.raises(lib.NVMLError_InUse):
        lib.nvmlDeviceSetMigMode(a100.handle, 1)


def test_instances_are_made_listed_and_destroyed(mig: Asked) -> None:
    lib = mig.lib
    place = lib.c_nvmlGpuInstancePlacement_t(2, 1)
    made = lib.nvmlDeviceCreateGpuInstanceWithPlacement(mig.handle, 19, ctypes.byref(place))
    info = lib.nvmlGpuInstanceGetInfo(made)
    assert (info.profileId, info.placement.start, info.placement.size) == (19, 2, 1)
    assert lib.nvmlDeviceGetUUID(info.device) == mig.gpu.uuid
    lib.nvmlDeviceCreateGpuInstance(mig.handle, 9)
    listed = mig.list("nvmlDeviceGetGpuInstances", "c_nvmlGpuInstance_t", mig.handle, 19)
    assert [lib.nvmlGpuInstanceGetInfo(each).id for each in listed] == [info.id]
    with pytest.raises(lib.NVMLError_InsufficientResources):
        lib.nvmlDeviceCreateGpuInstanceWithPlacement(mig.handle, 19, ctypes.byref(place))
    wrong = lib.c_nvmlGpuInstancePlacement_t(0, 3)
    with pytest.raises(lib.NVMLError_InvalidArgument):
        lib.nvmlDeviceCreateGpuInstanceWithPlacement(mig.handle, 19, ctypes.byref(wrong))
    lib.nvmlGpuInstanceDestroy(lib.nvmlDeviceGetGpuInstanceById(mig.handle, info.id))
    with pytest.raises(lib.NVMLError_NotFound):
        lib.nvmlDeviceGetGpuInstanceById(mig.handle, info.id)
    with pytest.raises(lib.NVMLError_NotFound):
        lib.nvmlGpuInstanceDestroy(made)


def test_placements_that_do_not_fit_the_array(mig: Asked) -> None:
    lib = mig.lib
    array, count = (lib.c_nvmlGpuInstancePlacement_t * 2)(), ctypes.c_uint(2)
    with pytest.raises(lib.NVMLError_InsufficientSize):
        lib.nvmlDeviceGetGpuInstancePossiblePlacements(mig.handle, 19, array, ctypes.byref(count))
    assert count.value == 7
    lib.nvmlDeviceGetGpuInstancePossiblePlacements(mig.handle, 19, None, ctypes.byref(count))
    assert count.value == 7


def test_compute_instances_are_made_listed_and_destroyed(mig: Asked) -> None:
    lib = mig.lib
    inside = lib.nvmlDeviceCreateGpuInstance(mig.handle, 9)
    info = lib.nvmlGpuInstanceGetComputeInstanceProfileInfo(inside, 0, 0)
    assert (info.id, info.sliceCount, info.instanceCount) == (0, 1, 3)
    assert info.name == "MIG 1c.3g.40gb"
    assert lib.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(inside, 0) == 3
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlGpuInstanceGetComputeInstanceProfileInfo(inside, 4, 0)
    made = lib.nvmlGpuInstanceCreateComputeInstance(inside, 1)
    found = lib.nvmlComputeInstanceGetInfo(made)
    assert (found.id, found.profileId, found.placement.size) == (0, 1, 2)
    assert lib.nvmlGpuInstanceGetInfo(found.gpuInstance).profileId == 9
    assert len(mig.list("nvmlGpuInstanceGetComputeInstances", "c_nvmlComputeInstance_t", inside, 1))
    with pytest.raises(lib.NVMLError_InUse):
        lib.nvmlGpuInstanceDestroy(inside)
    with pytest.raises(lib.NVMLError_InsufficientResources):
        lib.nvmlGpuInstanceCreateComputeInstance(inside, 2)
    lib.nvmlComputeInstanceDestroy(lib.nvmlGpuInstanceGetComputeInstanceById(inside, 0))
    with pytest.raises(lib.NVMLError_NotFound):
        lib.nvmlComputeInstanceDestroy(made)
    lib.nvmlGpuInstanceDestroy(inside)


def test_a_running_guest_has_the_compute_slices(mig: Asked) -> None:
    """behaviour §8: the guest makes its own; never on the host for a GI with a running VM."""
    lib = mig.lib
    inside = lib.nvmlDeviceCreateGpuInstance(mig.handle, 19)
    make(mig.gpu, "A100D-1-10C")
    mig.gpu.start_vm(["vf0"], "vm")
    with pytest.raises(lib.NVMLError_InsufficientResources):
        lib.nvmlGpuInstanceCreateComputeInstance(inside, 0)


def test_types_are_described(a100: Asked) -> None:
    lib, gpu = a100.lib, a100.gpu
    supported = lib.nvmlDeviceGetSupportedVgpus(a100.handle)
    assert supported == [each.id for each in gpu.types()]
    time_sliced, backed = type_id(gpu, "A100D-8C"), type_id(gpu, "A100D-3-40C")
    assert lib.nvmlVgpuTypeGetName(time_sliced) == "GRID A100D-8C"
    assert lib.nvmlVgpuTypeGetClass(time_sliced) == "Compute"
    assert lib.nvmlVgpuTypeGetFramebufferSize(time_sliced) == 8192 << 20
    assert lib.nvmlVgpuTypeGetMaxInstances(a100.handle, time_sliced) == 10
    assert lib.nvmlVgpuTypeGetMaxInstancesPerVm(time_sliced) == 16
    assert lib.nvmlVgpuTypeGetMaxInstancesPerGpuInstance(backed) == 1
    assert lib.nvmlVgpuTypeGetNumDisplayHeads(time_sliced) == 1
    assert lib.nvmlVgpuTypeGetGpuInstanceProfileId(backed) == 9
    assert lib.nvmlVgpuTypeGetGpuInstanceProfileId(time_sliced) == 0xFFFFFFFF
    with pytest.raises(lib.NVMLError_InvalidArgument):
        lib.nvmlVgpuTypeGetName(1)
    t4 = Asked("T4")
    assert t4.lib.nvmlVgpuTypeGetResolution(type_id(t4.gpu, "T4-16Q")) == (7680, 4320)


def test_creatable_types_follow_the_card(a100: Asked) -> None:
    lib, gpu = a100.lib, a100.gpu
    make(gpu, "A100D-8C")
    assert lib.nvmlDeviceGetCreatableVgpus(a100.handle) == [type_id(gpu, "A100D-8C")]
    make(gpu, *["A100D-8C"] * 9)
    assert lib.nvmlDeviceGetCreatableVgpus(a100.handle) == []


def test_a_vgpu_is_active_while_its_vm_runs(a100: Asked) -> None:
    """behaviour §14: ActiveVgpus stays empty until the VM opens the VF."""
    lib, gpu = a100.lib, a100.gpu
    make(gpu, "A100D-8C")
    assert lib.nvmlDeviceGetActiveVgpus(a100.handle) == []
    assert lib.nvmlDeviceGetMemoryInfo(a100.handle).used == 0
    gpu.start_vm(["vf0"], "vm")
    (active,) = lib.nvmlDeviceGetActiveVgpus(a100.handle)
    assert lib.nvmlVgpuInstanceGetVmID(active)[0] == b"vm"
    assert lib.nvmlVgpuInstanceGetType(active) == type_id(gpu, "A100D-8C")
    assert lib.nvmlVgpuInstanceGetUUID(active) == gpu.vgpus[0].uuid
    assert lib.nvmlVgpuInstanceGetMdevUUID(active) == "vf0"
    assert lib.nvmlVgpuInstanceGetGpuInstanceId(active) == 0xFFFFFFFF
    assert lib.nvmlVgpuInstanceGetPlacementId(active) == 0xFFFF
    assert lib.nvmlDeviceGetMemoryInfo(a100.handle).used == 8192 << 20
    gpu.stop_vm(["vf0"])
    with pytest.raises(lib.NVMLError_NotFound):
        lib.nvmlVgpuInstanceGetType(active)


def test_placements_of_the_modes() -> None:
    """behaviour §7: mixed-size ids, same-size ids, and what is left of them."""
    asked = Asked("L40S")
    lib, gpu = asked.lib, asked.gpu
    wanted = type_id(gpu, "L40S-16Q")
    mixed = lib.nvmlDeviceGetVgpuTypeSupportedPlacements(asked.handle, wanted)
    board = catalog.board("L40S")
    assert board is not None
    ids = catalog.mixed_ids(board, gpu.type(wanted) or board.types[0])
    assert tuple(mixed.placementIds[: mixed.count]) == ids
    assert mixed.placementSize == 16
    same = lib.nvmlDeviceGetVgpuTypeSupportedPlacements(asked.handle, wanted, 1, 2)
    assert same.placementIds[: same.count] == [0, 16, 32]
    make(gpu, "L40S-16Q")
    left = lib.nvmlDeviceGetVgpuTypeCreatablePlacements(asked.handle, wanted)
    assert left.placementIds[: left.count] == [16, 32]
    other = lib.nvmlDeviceGetVgpuTypeCreatablePlacements(asked.handle, type_id(gpu, "L40S-8Q"))
    assert other.count == 0
    a40 = Asked("A40")
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetVgpuTypeCreatablePlacements(a40.handle, type_id(a40.gpu, "A40-8Q"))


def test_mixed_size_mode_is_set_and_read() -> None:
    """behaviour §7, §13: InUse with a vGPU; NotSupported where there is no such mode."""
    asked = Asked("A40")
    lib = asked.lib
    assert lib.nvmlDeviceGetVgpuHeterogeneousMode(asked.handle) == 0
    lib.nvmlDeviceSetVgpuHeterogeneousMode(asked.handle, 1)
    assert lib.nvmlDeviceGetVgpuHeterogeneousMode(asked.handle) == 1
    make(asked.gpu, "A40-8Q")
    with pytest.raises(lib.NVMLError_InUse):
        lib.nvmlDeviceSetVgpuHeterogeneousMode(asked.handle, 0)
    t4 = Asked("T4")
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetVgpuHeterogeneousMode(t4.handle)


def test_the_scheduler_is_set_and_read() -> None:
    asked = Asked("A40")
    lib = asked.lib
    state = lib.c_nvmlVgpuSchedulerSetState_t()
    state.schedulerPolicy = lib.NVML_VGPU_SCHEDULER_POLICY_FIXED_SHARE
    lib.nvmlDeviceSetVgpuSchedulerState(asked.handle, state)
    now = lib.nvmlDeviceGetVgpuSchedulerState(asked.handle)
    assert now.schedulerPolicy == lib.NVML_VGPU_SCHEDULER_POLICY_FIXED_SHARE
    can = lib.nvmlDeviceGetVgpuSchedulerCapabilities(asked.handle)
    assert list(can.supportedSchedulers) == [1, 2, 3]
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceSetVgpuHeterogeneousMode(asked.handle, 1)
    m60 = Asked("M60")
    with pytest.raises(lib.NVMLError_InvalidArgument):
        lib.nvmlDeviceSetVgpuSchedulerState(m60.handle, state)


def test_with_mig_there_is_no_scheduler_and_no_mixed_size(mig: Asked) -> None:
    lib = mig.lib
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetVgpuSchedulerState(mig.handle)
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetVgpuHeterogeneousMode(mig.handle)


@pytest.mark.parametrize(
    ("board", "driver", "expected"),
    [
        ("T4", "580.105.06", [1, 1, 0, 0, 0]),
        ("A40", "580.105.06", [1, 1, 1, 0, 0]),
        ("A40", "535.161.05", [1, 0, 0, 0, 0]),
        ("L40S", "580.105.06", [1, 1, 1, 1, 0]),
        ("RTX-PRO-6000-BSE", "580.105.06", [1, 1, 1, 1, 1]),
    ],
)
def test_capabilities(board: str, driver: str, expected: list[int]) -> None:
    """behaviour §13: fractional, mixed types, mixed sizes, same-size ids, MIG time-slicing."""
    asked = Asked(board, driver)
    lib = asked.lib
    found = [lib.nvmlDeviceGetVgpuCapabilities(asked.handle, each) for each in (0, 1, 2, 9, 10)]
    assert found == expected
    assert lib.nvmlGetVgpuDriverCapabilities(0) == int(driver >= "550")
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetVgpuCapabilities(asked.handle, 3)


def test_what_kind_of_vgpu_host_it_is(a100: Asked) -> None:
    lib = a100.lib
    assert lib.nvmlDeviceGetHostVgpuMode(a100.handle) == lib.NVML_HOST_VGPU_MODE_SRIOV
    mode = lib.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU
    assert lib.nvmlDeviceGetVirtualizationMode(a100.handle) == mode
    t4 = Asked("T4")
    assert lib.nvmlDeviceGetHostVgpuMode(t4.handle) == lib.NVML_HOST_VGPU_MODE_NON_SRIOV


def test_health_is_told() -> None:
    """behaviour §13, §15."""
    asked = Asked("H100-SXM5-80GB")
    lib, gpu = asked.lib, asked.gpu
    action = lib.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    assert asked.field(action).value.uiVal == lib.NVML_GPU_RECOVERY_ACTION_NONE
    gpu.xid(119)
    assert asked.field(action).value.uiVal == lib.NVML_GPU_RECOVERY_ACTION_GPU_RESET
    assert asked.field(1).nvmlReturn == lib.NVML_ERROR_NOT_SUPPORTED
    assert lib.nvmlDeviceGetEccMode(asked.handle) == [1, 1]
    lib.nvmlDeviceSetEccMode(asked.handle, 0)
    assert lib.nvmlDeviceGetEccMode(asked.handle) == [1, 0]
    gpu.health.rows.pending = True
    assert lib.nvmlDeviceGetRemappedRows(asked.handle) == (0, 0, 1, 0)
    assert lib.nvmlDeviceGetCurrentClocksEventReasons(asked.handle) == 1
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetRetiredPagesPendingStatus(asked.handle)
    t4 = Asked("T4")
    assert lib.nvmlDeviceGetRetiredPagesPendingStatus(t4.handle) == 0
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetRemappedRows(t4.handle)


def test_the_fabric_is_told() -> None:
    asked = Asked("H100-SXM5-80GB")
    lib, gpu = asked.lib, asked.gpu
    gpu.module_id, gpu.fabric_state, gpu.nvlinks = 3, "in-progress", 18
    number = ctypes.c_uint()
    assert lib.nvmlDeviceGetModuleId(asked.handle, ctypes.byref(number)) == lib.NVML_SUCCESS
    assert number.value == 3
    info = lib.c_nvmlGpuFabricInfo_v2_t()
    lib.nvmlDeviceGetGpuFabricInfoV(asked.handle, ctypes.byref(info))
    assert info.state == lib.NVML_GPU_FABRIC_STATE_IN_PROGRESS
    assert [lib.nvmlDeviceGetNvLinkState(asked.handle, each) for each in (0, 17)] == [1, 1]
    with pytest.raises(lib.NVMLError_InvalidArgument):
        lib.nvmlDeviceGetNvLinkState(asked.handle, 18)
    info.version = 1
    with pytest.raises(lib.NVMLError_ArgumentVersionMismatch):
        lib.nvmlDeviceGetGpuFabricInfoV(asked.handle, ctypes.byref(info))
    a40 = Asked("A40")
    with pytest.raises(lib.NVMLError_NotSupported):
        lib.nvmlDeviceGetNvLinkState(a40.handle, 0)


def test_xids_are_events() -> None:
    asked = Asked("A40")
    lib, gpu = asked.lib, asked.gpu
    gpu.xid(13)
    events = lib.nvmlEventSetCreate()
    kinds = lib.nvmlDeviceGetSupportedEventTypes(asked.handle)
    lib.nvmlDeviceRegisterEvents(asked.handle, kinds, events)
    with pytest.raises(lib.NVMLError_Timeout):
        lib.nvmlEventSetWait_v2(events, 10)
    gpu.xid(31)
    gpu.xid(79)
    told = [lib.nvmlEventSetWait_v2(events, 10) for _ in range(2)]
    assert [(each.eventType, each.eventData) for each in told] == [(8, 31), (8, 79)]
    with pytest.raises(lib.NVMLError_GpuIsLost):
        lib.nvmlEventSetWait_v2(events, 10)
    lib.nvmlEventSetFree(events)
    with pytest.raises(lib.NVMLError_InvalidArgument):
        lib.nvmlEventSetFree(events)


def test_a_lost_gpu_is_lost_everywhere(mig: Asked) -> None:
    """behaviour §15: NVML says GpuIsLost; it is still counted."""
    lib = mig.lib
    inside = lib.nvmlDeviceCreateGpuInstance(mig.handle, 19)
    mig.gpu.xid(79)
    assert lib.nvmlDeviceGetCount() == 1
    calls: list[tuple[Any, ...]] = [
        (lib.nvmlDeviceGetHandleByIndex, 0),
        (lib.nvmlDeviceGetHandleByPciBusId, BUS_ID),
        (lib.nvmlDeviceGetUUID, mig.handle),
        (lib.nvmlDeviceGetMigMode, mig.handle),
        (lib.nvmlDeviceSetMigMode, mig.handle, 0),
        (lib.nvmlGpuInstanceGetInfo, inside),
        (lib.nvmlDeviceGetCreatableVgpus, mig.handle),
        (lib.nvmlDeviceGetFieldValues, mig.handle, [230]),
        (lib.nvmlDeviceGetVgpuSchedulerState, mig.handle),
    ]
    for function, *given in calls:
        with pytest.raises(lib.NVMLError_GpuIsLost):
            function(*given)


def test_a_call_fails_as_often_as_it_is_told(mig: Asked) -> None:
    lib = mig.lib
    mig.gpu.fail_next += [("nvmlDeviceCreateGpuInstance", "IN_USE")] * 2
    for _ in range(2):
        with pytest.raises(lib.NVMLError_InUse):
            lib.nvmlDeviceCreateGpuInstance(mig.handle, 19)
    made = lib.nvmlDeviceCreateGpuInstance(mig.handle, 19)
    mig.gpu.fail_next.append(("nvmlGpuInstanceDestroy", "UNKNOWN"))
    with pytest.raises(lib.NVMLError_Unknown):
        lib.nvmlGpuInstanceDestroy(made)
    lib.nvmlGpuInstanceDestroy(made)

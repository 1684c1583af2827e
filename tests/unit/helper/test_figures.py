"""What every GPU measures of itself: each call of NVML, what is not answered, what hangs."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from tests.unit.helper.host import GPU, FakeHost, done
from tests.unit.helper.nvml import A100, Gi
from tests.unit.helper.nvml_figures import (
    ALL_LINKS,
    DOUBLE,
    GIB,
    UINT,
    ULL,
    FakeVgpu,
    Measured,
    MeasuringNvml,
)
from vgpumgr.helper.figure_table import GPU_FIGURES, INSTANCE_FIGURES, VGPU_FIGURES

OTHER = "0000:42:00.0"
MDEV = "6f2f2e1c-3f7e-4d39-9ac4-0a5a2f6c2c11"
VM = "0d2a6c1e-90b6-4d0c-8d8a-0f5c30a5c001"


class MeasuredHost(FakeHost):
    """A host with one GPU on NVIDIA's driver, which has been up for 1,000 s of Unix time 5,000."""

    def __init__(self) -> None:
        super().__init__()
        self.gpu = Measured(GPU)
        self.library = self.fake = MeasuringNvml(self.gpu)
        self.path = self.add_function(GPU, kind="030200", driver="nvidia")
        self.files["/proc/uptime"] = "1000.00 4000.00\n"
        self.waited = 5000.0

    def read_gpu(self) -> dict[str, Any]:
        [found] = done(self, "figures")["gpus"]
        return dict(found)

    def figures(self) -> dict[str, int]:
        return dict(self.read_gpu()["figures"])


@pytest.fixture
def host() -> MeasuredHost:
    return MeasuredHost()


@pytest.mark.parametrize("name", [name for name in vars(MeasuringNvml) if name.startswith("nvml")])
def test_the_stand_in_is_called_as_nvidia_ml_py_is(name: str) -> None:
    ours = [*inspect.signature(getattr(MeasuringNvml, name)).parameters][1:]
    assert ours == [*inspect.signature(getattr(pynvml, name)).parameters]


def field(name: str) -> int:
    return int(getattr(pynvml, f"NVML_FI_DEV_{name}"))


FIELDS = [
    ("temperature_memory_c", "MEMORY_TEMP", 0, UINT, 70),
    ("power_mw", "POWER_INSTANT", 0, UINT, 251_300),
    ("power_mw", "POWER_AVERAGE", 0, UINT, 240_000),
    ("limit_enforced_mw", "POWER_CURRENT_LIMIT", 0, UINT, 300_000),
    ("limit_requested_mw", "POWER_REQUESTED_LIMIT", 0, UINT, 310_000),
    ("limit_default_mw", "POWER_DEFAULT_LIMIT", 0, UINT, 300_000),
    ("limit_min_mw", "POWER_MIN_LIMIT", 0, UINT, 100_000),
    ("limit_max_mw", "POWER_MAX_LIMIT", 0, UINT, 350_000),
    ("energy_mj", "TOTAL_ENERGY_CONSUMPTION", 0, ULL, 2**40),
    ("throttle_power_ns", "PERF_POLICY_POWER", 0, ULL, 2**55),
    ("throttle_sync_boost_ns", "PERF_POLICY_SYNC_BOOST", 0, ULL, 11),
    ("throttle_sw_thermal_ns", "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", 0, ULL, 12),
    ("throttle_hw_thermal_ns", "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", 0, ULL, 13),
    ("throttle_power_brake_ns", "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", 0, ULL, 14),
    ("ecc_corrected_boot", "ECC_SBE_VOL_TOTAL", 0, ULL, 3),
    ("ecc_uncorrected_boot", "ECC_DBE_VOL_TOTAL", 0, ULL, 1),
    ("ecc_corrected_life", "ECC_SBE_AGG_TOTAL", 0, ULL, 30),
    ("ecc_uncorrected_life", "ECC_DBE_AGG_TOTAL", 0, ULL, 2),
    ("rows_corrected", "REMAPPED_COR", 0, UINT, 4),
    ("rows_uncorrected", "REMAPPED_UNC", 0, UINT, 5),
    ("rows_pending", "REMAPPED_PENDING", 0, UINT, 1),
    ("rows_failed", "REMAPPED_FAILURE", 0, UINT, 1),
    ("pages_single_bit", "RETIRED_SBE", 0, ULL, 8),
    ("pages_double_bit", "RETIRED_DBE", 0, ULL, 9),
    ("recovery_action", "GET_GPU_RECOVERY_ACTION", 0, UINT, 4),
    ("pcie_replays", "PCIE_REPLAY_COUNTER", 0, UINT, 17),
    ("pcie_tx_bytes", "PCIE_COUNT_TX_BYTES", 0, ULL, 2**60),
    ("pcie_rx_bytes", "PCIE_COUNT_RX_BYTES", 0, ULL, 2**61),
    ("nvlink_ecc_errors", "NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", 0, ULL, 21),
    ("nvlink_replay_errors", "NVLINK_ERROR_DL_REPLAY", ALL_LINKS, ULL, 22),
    ("nvlink_replay_errors", "NVLINK_REPLAY_ERROR_COUNT_TOTAL", 0, ULL, 23),
    ("nvlink_recovery_errors", "NVLINK_ERROR_DL_RECOVERY", ALL_LINKS, ULL, 24),
    ("nvlink_recovery_errors", "NVLINK_COUNT_LINK_RECOVERY_EVENTS", ALL_LINKS, ULL, 25),
    ("nvlink_recovery_errors", "NVLINK_RECOVERY_ERROR_COUNT_TOTAL", 0, ULL, 26),
    ("nvlink_crc_errors", "NVLINK_ERROR_DL_CRC", ALL_LINKS, ULL, 27),
    ("nvlink_crc_errors", "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", 0, ULL, 28),
    ("nvlink_tx_bytes", "NVLINK_COUNT_XMIT_BYTES", ALL_LINKS, ULL, 2**50),
    ("nvlink_rx_bytes", "NVLINK_COUNT_RCV_BYTES", ALL_LINKS, DOUBLE, 2.0**51),
]


@pytest.mark.parametrize(("figure", "name", "scope", "kind", "value"), FIELDS)
def test_each_field_is_told_alone(
    host: MeasuredHost, figure: str, name: str, scope: int, kind: int, value: float
) -> None:
    host.gpu.fields = {(field(name), scope): (kind, value)}
    assert host.figures()[figure] == int(value)


def test_the_newest_of_several_fields_wins_and_all_are_one_call(host: MeasuredHost) -> None:
    host.gpu.fields = {
        (field(name), scope): (kind, value) for _, name, scope, kind, value in FIELDS
    }
    found = host.figures()
    assert (found["power_mw"], found["nvlink_recovery_errors"]) == (251_300, 24)
    assert host.fake.calls["nvmlDeviceGetFieldValues"] == 1


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("power_mw", 71_000),
        ("energy_mj", 5_000_000),
        ("limit_enforced_mw", 300_000),
        ("pcie_replays", 7),
    ],
)
def test_where_a_driver_lacks_a_field_its_own_function_is_asked(
    host: MeasuredHost, figure: str, value: int
) -> None:
    assert host.figures()[figure] == value


CALLS = [
    ("nvmlDeviceGetUtilizationRates", {"utilization_percent": 87, "memory_copy_percent": 31}),
    ("nvmlDeviceGetEncoderUtilization", {"encoder_percent": 12}),
    ("nvmlDeviceGetDecoderUtilization", {"decoder_percent": 4}),
    (
        "nvmlDeviceGetMemoryInfo",
        {
            "framebuffer_total_bytes": 80 * GIB,
            "framebuffer_used_bytes": 9 * GIB,
            "framebuffer_reserved_bytes": GIB // 2,
        },
    ),
    ("nvmlDeviceGetMarginTemperature", {"margin_c": -2}),
    (
        "nvmlDeviceGetTemperatureThreshold",
        {
            "threshold_shutdown_c": 96,
            "threshold_slowdown_c": 93,
            "threshold_memory_max_c": 95,
            "threshold_gpu_max_c": 85,
        },
    ),
    (
        "nvmlDeviceGetClockInfo",
        {"clock_sm_mhz": 1410, "clock_memory_mhz": 1593, "clock_video_mhz": 1275},
    ),
    (
        "nvmlDeviceGetRowRemapperHistogram",
        {"banks_max": 636, "banks_high": 3, "banks_partial": 1, "banks_low": 0, "banks_none": 0},
    ),
]


@pytest.mark.parametrize(("function", "told"), CALLS)
@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "NO_PERMISSION", "UNKNOWN", "TIMEOUT"])
def test_each_call_tells_its_figures_and_none_where_it_is_refused(
    host: MeasuredHost, function: str, told: dict[str, int], code: str
) -> None:
    before = host.figures()
    assert {name: before[name] for name in told} == told
    host.fake.fails[function] = code
    after = host.figures()
    assert before.keys() - after.keys() == told.keys()
    assert {name: before[name] for name in after} == after


def test_a_library_without_a_function_costs_its_figures(host: MeasuredHost) -> None:
    host.fake.missing |= {"nvmlDeviceGetMarginTemperature", "nvmlDeviceGetRowRemapperHistogram"}
    found = host.figures()
    assert "margin_c" not in found and "banks_max" not in found
    assert found["temperature_gpu_c"] == 61


def test_an_older_driver_is_asked_by_the_older_functions(host: MeasuredHost) -> None:
    host.fake.missing |= {
        "memory v2",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
    }
    found = host.figures()
    assert (found["framebuffer_total_bytes"], found["temperature_gpu_c"]) == (80 * GIB, 60)
    assert "framebuffer_reserved_bytes" not in found
    assert (found["throttled_power_brake"], found["throttled_power"]) == (1, 0)


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (0x4, "throttled_power"),
        (0x10, "throttled_sync_boost"),
        (0x20, "throttled_sw_thermal"),
        (0x40, "throttled_hw_thermal"),
        (0x80, "throttled_power_brake"),
    ],
)
def test_each_reason_of_the_clocks_is_a_flag(host: MeasuredHost, mask: int, reason: str) -> None:
    host.gpu.reasons = mask | 0x1  # idle is no reason
    found = host.figures()
    assert {name for name in found if name.startswith("throttled_") and found[name]} == {reason}


def vgpus(host: MeasuredHost) -> list[dict[str, Any]]:
    return list(host.read_gpu()["vgpus"])


def test_a_vgpu_is_told_with_who_has_it_and_what_it_does(host: MeasuredHost) -> None:
    host.gpu.running = [FakeVgpu(11, MDEV, VM, used=6 * GIB)]
    assert vgpus(host) == [
        {
            "number": 11,
            "uuid": "vgpu-11",
            "mdev": MDEV,
            "vm": VM,
            "type": 801,
            "instance": None,
            "placement_id": None,
            "figures": {
                "sm_percent": 40,
                "memory_percent": 20,
                "encoder_percent": 5,
                "decoder_percent": 3,
                "framebuffer_used_bytes": 6 * GIB,  # more than 32 bits hold
                "framebuffer_total_bytes": 10 * GIB,
                "licensed": 1,
                "license_expiry_s": 1803904215,
                "encoder_sessions": 2,
                "capture_fps": 60,
                "frame_rate_limit": 45,
            },
        }
    ]


def test_all_vgpus_of_a_gpu_are_one_call(host: MeasuredHost) -> None:
    host.gpu.running = [FakeVgpu(n, None, VM, used=GIB, placement=n, instance=2) for n in range(16)]
    found = vgpus(host)
    assert [(each["mdev"], each["placement_id"], each["instance"]) for each in found] == [
        (None, n, 2) for n in range(16)
    ]
    assert host.fake.calls["nvmlDeviceGetVgpuInstancesUtilizationInfo"] == 1
    assert host.fake.calls["nvmlVgpuTypeGetFramebufferSize"] == 1


VGPU_CALLS = {
    "nvmlVgpuInstanceGetFbUsage": {"framebuffer_used_bytes"},
    "nvmlVgpuTypeGetFramebufferSize": {"framebuffer_total_bytes"},
    "nvmlVgpuInstanceGetLicenseInfo": {"licensed", "license_expiry_s"},
    "nvmlVgpuInstanceGetEncoderStats": {"encoder_sessions"},
    "nvmlVgpuInstanceGetFBCStats": {"capture_fps"},
    "nvmlVgpuInstanceGetFrameRateLimit": {"frame_rate_limit"},
}


@pytest.mark.parametrize("function", sorted(VGPU_CALLS))
def test_what_a_driver_does_not_tell_of_a_vgpu_is_absent(host: MeasuredHost, function: str) -> None:
    host.gpu.running = [FakeVgpu(1, MDEV, VM, used=GIB)]
    [before] = vgpus(host)
    host.fake.fails[function] = "NOT_SUPPORTED"
    [after] = vgpus(host)
    assert before["figures"].keys() - after["figures"].keys() == VGPU_CALLS[function]


@pytest.mark.parametrize(
    "function",
    [
        "nvmlVgpuInstanceGetUUID",
        "nvmlVgpuInstanceGetMdevUUID",
        "nvmlVgpuInstanceGetVmID",
        "nvmlVgpuInstanceGetType",
        "nvmlVgpuInstanceGetGpuInstanceId",
        "nvmlVgpuInstanceGetPlacementId",
    ],
)
def test_a_vgpu_whose_identity_is_not_told_keeps_its_figures(
    host: MeasuredHost, function: str
) -> None:
    host.gpu.running = [FakeVgpu(1, MDEV, VM, used=GIB)]
    host.fake.fails[function] = "UNKNOWN"
    [found] = vgpus(host)
    assert found["figures"]["sm_percent"] == 40


def test_before_r545_shares_come_by_the_older_function(host: MeasuredHost) -> None:
    host.gpu.running = [FakeVgpu(1, MDEV, VM, used=GIB, shares=(9, 8, 7, 6))]
    host.fake.missing.add("nvmlDeviceGetVgpuInstancesUtilizationInfo")
    assert vgpus(host)[0]["figures"]["sm_percent"] == 9
    host.fake.missing.add("nvmlDeviceGetVgpuUtilization")
    assert "sm_percent" not in vgpus(host)[0]["figures"]


def test_a_share_that_was_not_measured_is_absent(host: MeasuredHost) -> None:
    host.gpu.running = [FakeVgpu(1, MDEV, VM, used=GIB, shares=(0xFFFFFFFF, 1, 2, 3))]
    assert "sm_percent" not in vgpus(host)[0]["figures"]


@pytest.mark.parametrize(
    ("state", "expiry", "told"),
    [
        (0, 2, {}),
        (4, 3, {"licensed": 0}),
        (5, 4, {"licensed": 1}),
        (5, 2, {"licensed": 1, "license_expiry_s": 1803904215}),
    ],
)
def test_a_licence_is_told_as_far_as_it_is_known(
    host: MeasuredHost, state: int, expiry: int, told: dict[str, int]
) -> None:
    vgpu = FakeVgpu(1, MDEV, VM, used=GIB, licence=state, expiry=(2027, 3, 1, 12, 30, 15, expiry))
    host.gpu.running = [vgpu]
    found = vgpus(host)[0]["figures"]
    assert {name: found[name] for name in found if name.startswith("licen")} == told


def test_a_driver_without_vgpus_has_none_to_tell(host: MeasuredHost) -> None:
    host.fake.fails["nvmlDeviceGetActiveVgpus"] = "NOT_SUPPORTED"
    assert host.read_gpu()["vgpus"] is None


@pytest.fixture
def mig(host: MeasuredHost) -> Iterator[MeasuredHost]:
    host.gpu.mig = (1, 1)
    host.gpu.instances = {1: Gi(1, A100[0x2], 0), 2: Gi(2, A100[0x2], 4)}
    yield host
    assert host.fake.samples == 0, "a sample was not freed"


def test_an_instance_is_told_with_its_memory_and_its_share(mig: MeasuredHost) -> None:
    mig.gpu.mig_devices = [(1, GIB), (1, 2 * GIB)]
    mig.gpu.performance = {1: [41.25]}
    before = mig.waited
    found = mig.read_gpu()
    assert found["instances"] == [
        {"id": 1, "figures": {"framebuffer_used_bytes": 2 * GIB, "sm_per_myriad": 4125}},
        {"id": 2, "figures": {}},
    ]
    assert "utilization_percent" not in found["figures"], "with MIG on there is no such figure"
    assert mig.waited - before >= 0.1, "NVML wants that much between two samples"


def test_before_hopper_nothing_is_waited_for(mig: MeasuredHost) -> None:
    before = mig.waited
    assert [each["figures"] for each in mig.read_gpu()["instances"]] == [{}, {}]
    assert mig.waited == before


def test_a_share_of_nothing_is_not_told(mig: MeasuredHost) -> None:
    mig.gpu.performance = {1: [float("nan")]}
    assert mig.read_gpu()["instances"][0]["figures"] == {}


@pytest.mark.parametrize("function", ["nvmlGpmMetricsGet", "nvmlGpmMigSampleGet"])
def test_a_share_that_is_refused_is_absent(mig: MeasuredHost, function: str) -> None:
    mig.gpu.performance = {1: [41.25]}
    mig.fake.fails[function] = "UNKNOWN"
    assert mig.read_gpu()["instances"][0]["figures"] == {}


def test_instances_that_cannot_be_read_are_null(mig: MeasuredHost) -> None:
    mig.fake.fails["nvmlDeviceGetGpuInstances"] = "NO_PERMISSION"
    assert mig.read_gpu()["instances"] is None


def test_every_figure_is_one_of_the_table(host: MeasuredHost) -> None:
    host.gpu.fields = {
        (field(name), scope): (kind, value) for _, name, scope, kind, value in FIELDS
    }
    host.gpu.running = [FakeVgpu(1, MDEV, VM, used=GIB)]
    host.files |= {f"{host.path}/{name}": text for name, text in LINK.items()}
    found = host.read_gpu()
    assert found["figures"].keys() == {each.name for each in GPU_FIGURES}
    assert found["vgpus"][0]["figures"].keys() == {each.name for each in VGPU_FIGURES}
    assert {"framebuffer_used_bytes", "sm_per_myriad"} == {each.name for each in INSTANCE_FIGURES}


LINK = {
    "current_link_width": "8\n",
    "max_link_width": "16\n",
    "current_link_speed": "8.0 GT/s PCIe\n",
    "max_link_speed": "32.0 GT/s PCIe\n",
}
AER = {
    "aer_dev_correctable": "RxErr 1\nTOTAL_ERR_COR 6\n",
    "aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 2\n",
    "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 1\n",
}


def test_a_gpu_that_is_with_a_guest_says_so_and_tells_what_the_kernel_knows() -> None:
    host = FakeHost()
    path = host.add_function(GPU, kind="030200", driver="vfio-pci")
    host.files |= {f"{path}/{name}": text for name, text in (LINK | AER).items()}
    host.files["/proc/uptime"] = "10.0 1.0"
    [found] = done(host, "figures")["gpus"]
    assert found == {
        "address": GPU,
        "driver": "vfio-pci",
        "answered": False,
        "figures": {
            "link_width": 8,
            "link_width_max": 16,
            "link_gen": 3,
            "link_gen_max": 5,
            "aer_correctable": 6,
            "aer_nonfatal": 2,
            "aer_fatal": 1,
        },
        "uuid": None,
        "vbios": None,
        "vgpus": None,
        "instances": None,
        "xids": None,
        "last_xid": None,
    }


def test_a_link_that_is_not_there_has_no_width(host: MeasuredHost) -> None:
    host.files |= {f"{host.path}/{name}": text for name, text in LINK.items()}
    host.files |= {f"{host.path}/current_link_width": "63\n"}
    host.files |= {f"{host.path}/current_link_speed": "Unknown\n"}
    assert host.figures()["link_width_max"] == 16
    assert not {"link_width", "link_gen"} & host.figures().keys()


@pytest.mark.parametrize("driver", ["amdgpu", "xe"])
def test_a_driver_with_a_hardware_monitor_is_read_by_it(driver: str) -> None:
    host = FakeHost()
    path = host.add_function(GPU, kind="038000", driver=driver)
    for name, text in {
        "gpu_busy_percent": "42",
        "mem_busy_percent": "17",
        "mem_info_vram_total": str(64 * GIB),
        "mem_info_vram_used": str(3 * GIB),
        "hwmon/hwmon4/temp1_input": "51000",
        "hwmon/hwmon4/power1_average": "180000000",
        "hwmon/hwmon4/power1_cap": "300000000",
        "hwmon/hwmon4/energy1_input": "9000000",
    }.items():
        host.files[f"{path}/{name}"] = f"{text}\n"
    [found] = done(host, "figures")["gpus"]
    assert found["figures"] == {
        "utilization_percent": 42,
        "memory_copy_percent": 17,
        "framebuffer_total_bytes": 64 * GIB,
        "framebuffer_used_bytes": 3 * GIB,
        "temperature_gpu_c": 51,
        "power_mw": 180_000,
        "limit_enforced_mw": 300_000,
        "energy_mj": 9_000,
    }


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EBUSY])
def test_a_driver_that_hangs_costs_what_it_would_have_told(host: MeasuredHost, number: int) -> None:
    host.files |= {f"{host.path}/{name}": text for name, text in LINK.items()}
    host.driver_hangs = number
    found = done(host, "figures")
    [gpu] = found["gpus"]
    assert (found["hung"], gpu["answered"], gpu["vgpus"]) == (True, False, None)
    assert gpu["figures"] == {
        "link_width": 8,
        "link_width_max": 16,
        "link_gen": 3,
        "link_gen_max": 5,
    }
    assert [each["part"] for each in found["unknown"]] == ["nvml"]


def test_a_library_that_is_not_there_is_no_hang(host: MeasuredHost) -> None:
    host.library = None
    found = done(host, "figures")
    assert (found["hung"], found["driver"]) == (False, None)
    assert [each["part"] for each in found["unknown"]] == ["nvml"]


def test_a_lost_gpu_is_not_answered_for_and_hides_none_of_the_others(host: MeasuredHost) -> None:
    host.add_function(OTHER, kind="030200", driver="nvidia")
    host.fake.gpus[OTHER] = Measured(OTHER)
    host.gpu.lost = True
    lost, well = done(host, "figures")["gpus"]
    assert (lost["answered"], lost["figures"]) == (False, {})
    assert (well["answered"], well["figures"]["temperature_gpu_c"]) == (True, 61)


def printed(number: int, at: float, text: str, priority: int = 4) -> str:
    """A record as ``/dev/kmsg`` gives it."""
    return f"{priority},{number},{at * 1e6:.0f},-;{text}\n SUBSYSTEM=pci\n"


def xid(number: int, at: float, code: int, slot: str = "PCI:0000:41:00") -> str:
    return printed(number, at, f"NVRM: Xid ({slot}): {code}, pid='<unknown>', name=<unknown>")


def test_xids_are_counted_by_code_with_the_time_of_the_last(host: MeasuredHost) -> None:
    other = printed(5, 12.0, "other words")
    host.records = [xid(3, 10.0, 31), xid(4, 11.5, 31), other, xid(9, 20.0, 79)]
    found = host.read_gpu()
    assert found["xids"] == {"31": 2, "79": 1}
    assert found["last_xid"] == 4020.0


def test_what_the_log_has_forgotten_stays_counted_and_nothing_is_counted_twice(
    host: MeasuredHost,
) -> None:
    host.records = [xid(3, 10.0, 31), xid(4, 11.0, 31)]
    assert host.read_gpu()["xids"] == {"31": 2}
    assert host.read_gpu()["xids"] == {"31": 2}
    host.records = [xid(90, 50.0, 31)]
    assert host.read_gpu()["xids"] == {"31": 3}


def test_an_xid_is_its_own_gpus_alone(host: MeasuredHost) -> None:
    host.add_function(OTHER, kind="030200", driver="nvidia")
    host.fake.gpus[OTHER] = Measured(OTHER)
    host.records = [xid(3, 10.0, 31, "PCI:0000:42:00"), xid(4, 10.0, 13, "PCI:0000:41:00 GPU-I:05")]
    assert [each["xids"] for each in done(host, "figures")["gpus"]] == [{"13": 1}, {"31": 1}]


def test_a_log_that_may_not_be_read_is_named_and_no_zero_is_told(host: MeasuredHost) -> None:
    host.unreadable["/dev/kmsg"] = errno.EPERM
    found = done(host, "figures")
    assert found["gpus"][0]["xids"] is None
    assert [each["part"] for each in found["unknown"]] == ["kernel-log"]
    assert found["gpus"][0]["figures"]["temperature_gpu_c"] == 61


@pytest.mark.parametrize(
    "text", ["", "[]", '{"next": "x"}', '{"next": 1, "codes": [], "last": {}}']
)
def test_a_file_that_is_not_ours_is_counted_anew(host: MeasuredHost, text: str) -> None:
    host.files["/run/vgpumgr/xids.json"] = text
    host.records = [xid(3, 10.0, 31)]
    assert host.read_gpu()["xids"] == {"31": 1}


def test_counts_that_cannot_be_kept_are_told_all_the_same(host: MeasuredHost) -> None:
    host.refuse["xids.json"] = errno.EROFS
    host.records = [xid(3, 10.0, 31)]
    assert host.read_gpu()["xids"] == {"31": 1}


@pytest.mark.parametrize(
    "record",
    [
        printed(3, 1.0, "NVRM: Xid (PCI:0000:41:00): 79", priority=12),
        "no record at all",
        printed(3, 1.0, "said NVRM: Xid (PCI:0000:41:00): 79"),
        printed(3, 1.0, "NVRM: Xid (PCI:0000:41:00): 99999"),
    ],
)
def test_what_a_process_wrote_or_is_no_xid_counts_for_nothing(
    host: MeasuredHost, record: str
) -> None:
    host.records = [record]
    assert host.read_gpu()["xids"] == {}


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("MEMORY_TEMP", UINT, 0xFFFFFFFF),
        ("POWER_INSTANT", ULL, 2**64 - 1),
        ("REMAPPED_PENDING", UINT, 2),
    ],
)
def test_what_cannot_be_is_not_told(host: MeasuredHost, name: str, kind: int, value: int) -> None:
    figure = next(each[0] for each in FIELDS if each[1] == name)
    host.gpu.fields = {(field(name), 0): (kind, value)}
    assert figure not in host.figures()

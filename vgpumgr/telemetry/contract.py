"""The contract of the series: every row of docs/metrics.md with its families and labels.

Dashboards, alert rules and tests are held against it; a family that is not here is never written.
"""

from __future__ import annotations

from typing import NamedTuple

from vgpumgr.helper.figure_families import (
    COUNTER,
    DURATION_FAMILY,
    GAUGE,
    GPU_FAMILIES,
    GPU_INFO_FAMILY,
    HUNG_FAMILY,
    INSTANCE_FAMILIES,
    LAST_XID_FAMILY,
    UP_FAMILY,
    VGPU_FAMILIES,
    VGPU_INFO_FAMILY,
    XID_FAMILY,
    Family,
)

HISTOGRAM = "histogram"
OF_GPU = ("host", "UUID", "gpu")
OF_VGPU = (*OF_GPU, "vgpu")
OF_INSTANCE = (*OF_GPU, "gi")


class ContractRow(NamedTuple):
    """One row: ``labels`` are all that its series have; ``source`` is where its values come from.

    A row without a ``source`` is one that nothing here measures yet.
    """

    number: int
    families: tuple[Family, ...]
    labels: tuple[str, ...]
    source: str


_HOST_FAMILIES = {each.name: each for each in (*GPU_FAMILIES, *VGPU_FAMILIES, *INSTANCE_FAMILIES)}


def _measured(number: int, name: str, source: str, *labels: str) -> ContractRow:
    family = _HOST_FAMILIES[f"vgpumgr_{name}"]
    base = {"gpu": OF_GPU, "vgpu": OF_VGPU, "gi": OF_INSTANCE}[name.partition("_")[0]]
    return ContractRow(number, (family,), (*base, *labels), source)


def _known(number: int, name: str, help: str, source: str, *labels: str) -> ContractRow:
    return ContractRow(number, (Family(f"vgpumgr_{name}", GAUGE, help),), labels, source)


_GPU_INFO = ("pci", "model", "serial", "driver", "vbios", "mode", "framework", "numa", "rack")
_VGPU_INFO = ("vm", "tenant", "pool", "profile", "allocation", "gi", "domain")
_HOST_ROW = (
    UP_FAMILY,
    Family("vgpumgr_host_probe_age_seconds", GAUGE, "Time since the last probe that answered."),
    DURATION_FAMILY,
    HUNG_FAMILY,
)

CONTRACT = (
    ContractRow(1, (GPU_INFO_FAMILY,), (*OF_GPU, *_GPU_INFO), "ledger, NVML"),
    _measured(2, "gpu_utilization_ratio", "nvmlDeviceGetUtilizationRates"),
    _measured(3, "gpu_memory_copy_utilization_ratio", "nvmlDeviceGetUtilizationRates"),
    _measured(4, "gpu_encoder_utilization_ratio", "nvmlDeviceGetEncoderUtilization"),
    _measured(5, "gpu_decoder_utilization_ratio", "nvmlDeviceGetDecoderUtilization"),
    _measured(6, "gpu_framebuffer_total_bytes", "nvmlDeviceGetMemoryInfo_v2"),
    _measured(7, "gpu_framebuffer_used_bytes", "nvmlDeviceGetMemoryInfo_v2"),
    _measured(8, "gpu_framebuffer_reserved_bytes", "nvmlDeviceGetMemoryInfo_v2"),
    _known(9, "gpu_framebuffer_allocated_bytes", "Memory that VMs hold.", "ledger", *OF_GPU),
    _known(
        *(10, "gpu_framebuffer_stranded_bytes"),
        *("Free memory that no expected request can use.", "placement", *OF_GPU),
    ),
    _measured(11, "gpu_temperature_celsius", "nvmlDeviceGetTemperatureV, field 82", "sensor"),
    _measured(12, "gpu_temperature_margin_celsius", "nvmlDeviceGetMarginTemperature"),
    _measured(13, "gpu_temperature_threshold_celsius", "nvmlDeviceGetTemperatureThreshold", "kind"),
    _measured(14, "gpu_power_watts", "field 186, else nvmlDeviceGetPowerUsage"),
    _measured(15, "gpu_power_limit_watts", "fields 187 to 190, 192", "kind"),
    _measured(16, "gpu_energy_joules_total", "field 83"),
    _measured(17, "gpu_clock_hertz", "nvmlDeviceGetClockInfo", "domain"),
    _measured(18, "gpu_throttle_seconds_total", "fields 74, 76, 269 to 271", "reason"),
    _measured(19, "gpu_throttled", "nvmlDeviceGetCurrentClocksEventReasons", "reason"),
    _measured(20, "gpu_ecc_errors_total", "fields 3 to 6", "type", "since"),
    _measured(21, "gpu_remapped_rows", "fields 142, 143", "cause"),
    _measured(22, "gpu_row_remap_pending", "field 144"),
    _measured(23, "gpu_row_remap_failed", "field 145"),
    _measured(24, "gpu_remap_banks", "nvmlDeviceGetRowRemapperHistogram", "left"),
    _measured(25, "gpu_retired_pages", "fields 29, 30", "cause"),
    ContractRow(26, (XID_FAMILY,), (*OF_GPU, "xid"), "the kernel's log; sysfs, aer_dev_*"),
    ContractRow(27, (LAST_XID_FAMILY,), OF_GPU, "the kernel's log"),
    _measured(28, "gpu_recovery_action", "field 230"),
    _known(
        *(29, "gpu_health_state", "1 for the state that the GPU is in, 0 for the others."),
        *("ledger", *OF_GPU, "state"),
    ),
    _known(
        *(30, "gpu_failure_risk_ratio", "Risk that the GPU fails within 48 hours, after errors."),
        *("the ledger's history of its health", *OF_GPU),
    ),
    _measured(31, "gpu_pcie_replays_total", "field 94, else nvmlDeviceGetPcieReplayCounter"),
    _measured(32, "gpu_pcie_bytes_total", "fields 197, 198", "direction"),
    _measured(33, "gpu_pcie_link", "sysfs, current_link_* and max_link_*", "what", "of"),
    _measured(34, "gpu_nvlink_errors_total", "fields 160 to 163, else 45, 52, 59, 215", "kind"),
    _measured(35, "gpu_nvlink_bytes_total", "fields 202, 204", "direction"),
    ContractRow(36, (VGPU_INFO_FAMILY,), (*OF_VGPU, *_VGPU_INFO), "ledger"),
    _measured(
        *(37, "vgpu_utilization_ratio", "nvmlDeviceGetVgpuInstancesUtilizationInfo", "engine"),
    ),
    _measured(38, "vgpu_framebuffer_used_bytes", "nvmlVgpuInstanceGetFbUsage"),
    _measured(39, "vgpu_framebuffer_total_bytes", "nvmlVgpuTypeGetFramebufferSize"),
    _measured(40, "vgpu_licensed", "nvmlVgpuInstanceGetLicenseInfo_v2"),
    _measured(41, "vgpu_license_expiry_timestamp_seconds", "nvmlVgpuInstanceGetLicenseInfo_v2"),
    _measured(42, "vgpu_encoder_sessions", "nvmlVgpuInstanceGetEncoderStats"),
    _measured(43, "vgpu_capture_frames_per_second", "nvmlVgpuInstanceGetFBCStats"),
    _measured(44, "vgpu_frame_rate_limit", "nvmlVgpuInstanceGetFrameRateLimit"),
    _known(
        *(45, "gi_info", "A MIG GPU instance; always 1.", "ledger"),
        *(*OF_INSTANCE, "profile", "vm", "tenant"),
    ),
    _measured(
        46, "gi_framebuffer_used_bytes", "nvmlDeviceGetMemoryInfo of the MIG device, else its vGPUs"
    ),
    _measured(47, "gi_sm_utilization_ratio", "nvmlGpmMigSampleGet, nvmlGpmMetricsGet"),
    ContractRow(48, _HOST_ROW, ("host",), "the sampler, the ledger"),
    _known(
        *(49, "profile_creatable", "More of the profile that fit on the GPU."),
        *("placement", "host", "UUID", "profile"),
    ),
    ContractRow(
        50,
        (
            Family(
                "vgpumgr_fragmentation_ratio", GAUGE, "Share of free GPU memory that is unusable."
            ),
            Family("vgpumgr_headroom", GAUGE, "More VMs with one part of the profile that fit."),
        ),
        ("profile",),
        "placement",
    ),
    _known(51, "pool_desktops", "Desktops by state.", "ledger", "pool", "state"),
    _known(
        *(52, "pool_spare_startable", "More desktops of the pool that could start now."),
        *("placement", "pool"),
    ),
    _known(
        *(53, "allocations", "What VMs hold, counted.", "ledger"),
        *("tenant", "framework", "profile", "state"),
    ),
    ContractRow(
        54,
        (
            Family(
                "vgpumgr_gpu_seconds_total",
                COUNTER,
                "Time of whole GPUs that was held: half a GPU for a second is 0.5.",
            ),
        ),
        ("tenant", "pool", "profile", "class"),
        "ledger",
    ),
    ContractRow(
        55,
        (
            Family("vgpumgr_operations_total", COUNTER, "Operations that have ended."),
            Family("vgpumgr_operation_duration_seconds", HISTOGRAM, "How long they took."),
        ),
        ("kind", "outcome"),
        "ledger",
    ),
    ContractRow(
        56,
        (
            Family("vgpumgr_rack_power_watts", GAUGE, "Power of the GPUs of a rack."),
            Family("vgpumgr_rack_power_budget_watts", GAUGE, "What they may draw."),
            Family("vgpumgr_power_capped_gpus", GAUGE, "GPUs below their default limit."),
        ),
        ("rack",),
        "figures of the hosts with the label rack; budgets by that label",
    ),
    _known(
        *(57, "host_driver_info", "The driver of a host; always 1.", "ledger"),
        *("host", "driver", "branch", "kernel", "lock"),
    ),
    ContractRow(
        58,
        (
            Family("vgpumgr_coolant_celsius", GAUGE, "Temperature of a coolant."),
            Family("vgpumgr_pdu_outlet_watts", GAUGE, "Power of an outlet."),
        ),
        ("rack", "sensor"),
        "Redfish, by the meters of power budgets",
    ),
    ContractRow(
        59,
        (
            Family("vgpumgr_licence_seats", GAUGE, "Licence seats that are declared."),
            Family("vgpumgr_licence_seats_used", GAUGE, "Licence seats that VMs take."),
        ),
        ("edition",),
        "ledger",
    ),
    ContractRow(
        60,
        (Family("vgpumgr_guests", GAUGE, "Guests that have checks, by their phase."),),
        ("phase",),
        "ledger",
    ),
)
# Of the sampler itself, beside the contract.
OWN_FAMILIES = (
    Family("vgpumgr_telemetry_sampled_timestamp_seconds", GAUGE, "When these series were made."),
    Family("vgpumgr_telemetry_sample_duration_seconds", GAUGE, "How long that took."),
    Family("vgpumgr_telemetry_series", GAUGE, "How many series there are."),
)
FAMILIES = (*(family for row in CONTRACT for family in row.families), *OWN_FAMILIES)
ORDER = {family.name: number for number, family in enumerate(FAMILIES)}

GPU_BUDGET, VGPU_BUDGET, INSTANCE_BUDGET = 64, 7, 3
"""The most series of each GPU, vGPU and GPU instance, unless all series are asked for."""
GPU_BUDGET_OF_ALL, VGPU_BUDGET_OF_ALL = 128, 13

"""The families of series that a host's own figures become: names, types and what they mean."""

from __future__ import annotations

from typing import NamedTuple

GAUGE, COUNTER = "gauge", "counter"


class Family(NamedTuple):
    """One family of series: its name, type and the sentence that explains it."""

    name: str
    kind: str
    help: str


GPU_INFO_FAMILY = Family("vgpumgr_gpu_info", GAUGE, "A GPU; always 1.")
VGPU_INFO_FAMILY = Family(
    "vgpumgr_vgpu_info", GAUGE, "A vGPU, MIG-backed vGPU, VF or whole GPU of a VM; always 1."
)
UP_FAMILY = Family("vgpumgr_host_up", GAUGE, "1: the host told its figures.")
HUNG_FAMILY = Family(
    "vgpumgr_host_probe_hung", GAUGE, "1: its driver, or the host, did not answer in time."
)
DURATION_FAMILY = Family(
    "vgpumgr_host_probe_duration_seconds", GAUGE, "Time that its figures took to come."
)

GPU_FAMILIES = (
    Family("vgpumgr_gpu_utilization_ratio", GAUGE, "Share of time with work on the GPU."),
    Family(
        "vgpumgr_gpu_memory_copy_utilization_ratio",
        GAUGE,
        "Share of time in which the GPU's memory was read or written.",
    ),
    Family("vgpumgr_gpu_encoder_utilization_ratio", GAUGE, "Share of time of the video encoders."),
    Family("vgpumgr_gpu_decoder_utilization_ratio", GAUGE, "Share of time of the video decoders."),
    Family("vgpumgr_gpu_framebuffer_total_bytes", GAUGE, "Memory of the GPU."),
    Family("vgpumgr_gpu_framebuffer_used_bytes", GAUGE, "Memory that is in use."),
    Family("vgpumgr_gpu_framebuffer_reserved_bytes", GAUGE, "Memory that the driver keeps."),
    Family("vgpumgr_gpu_temperature_celsius", GAUGE, "Temperature at a sensor."),
    Family(
        "vgpumgr_gpu_temperature_margin_celsius",
        GAUGE,
        "Degrees that are left until the GPU slows itself down.",
    ),
    Family(
        "vgpumgr_gpu_temperature_threshold_celsius",
        GAUGE,
        "Temperature at which the board does what the kind says.",
    ),
    Family("vgpumgr_gpu_power_watts", GAUGE, "Power that the board draws."),
    Family("vgpumgr_gpu_power_limit_watts", GAUGE, "Limits of the power that the board may draw."),
    Family("vgpumgr_gpu_energy_joules_total", COUNTER, "Energy since the driver was loaded."),
    Family("vgpumgr_gpu_clock_hertz", GAUGE, "Clock of a part of the GPU."),
    Family(
        "vgpumgr_gpu_throttle_seconds_total",
        COUNTER,
        "Time in which the clocks were held down, by reason.",
    ),
    Family("vgpumgr_gpu_throttled", GAUGE, "Are the clocks held down now, by reason? 1 or 0."),
    Family("vgpumgr_gpu_ecc_errors_total", COUNTER, "Memory errors that ECC has seen."),
    Family("vgpumgr_gpu_remapped_rows", GAUGE, "Memory rows that were replaced by spare ones."),
    Family("vgpumgr_gpu_row_remap_pending", GAUGE, "1: a replaced row waits for a reset."),
    Family("vgpumgr_gpu_row_remap_failed", GAUGE, "1: no spare row was left."),
    Family("vgpumgr_gpu_remap_banks", GAUGE, "Memory banks by the spare rows they have left."),
    Family("vgpumgr_gpu_retired_pages", GAUGE, "Memory pages out of use, before Ampere."),
    Family(
        "vgpumgr_gpu_recovery_action",
        GAUGE,
        "What the driver asks for: 0 nothing, 1 GPU reset, 2 reboot, 3 drain peer-to-peer, "
        "4 drain and reset, 5 IMEX, 6 bus reset, 7 system reboot.",
    ),
    Family("vgpumgr_gpu_pcie_replays_total", COUNTER, "PCIe packets that were sent again."),
    Family("vgpumgr_gpu_pcie_bytes_total", COUNTER, "Bytes over PCIe, as the GPU sees them."),
    Family("vgpumgr_gpu_pcie_link", GAUGE, "Width and generation of the PCIe link."),
    Family("vgpumgr_gpu_nvlink_errors_total", COUNTER, "Errors of all NVLinks."),
    Family("vgpumgr_gpu_nvlink_bytes_total", COUNTER, "Bytes over all NVLinks."),
)

XID_FAMILY = Family(
    "vgpumgr_gpu_xid_total",
    COUNTER,
    "Xids in the host's kernel log since its boot, by code; PCIe errors of a GPU that was given "
    "away, as aer-….",
)
LAST_XID_FAMILY = Family("vgpumgr_gpu_last_xid_timestamp_seconds", GAUGE, "When the last Xid was.")

VGPU_FAMILIES = (
    Family(
        "vgpumgr_vgpu_utilization_ratio",
        GAUGE,
        "Share of the GPU's time that went to the vGPU, by engine.",
    ),
    Family("vgpumgr_vgpu_framebuffer_used_bytes", GAUGE, "Memory that the guest uses."),
    Family("vgpumgr_vgpu_framebuffer_total_bytes", GAUGE, "Memory of the vGPU."),
    Family("vgpumgr_vgpu_licensed", GAUGE, "1: the guest's driver has a licence."),
    Family("vgpumgr_vgpu_license_expiry_timestamp_seconds", GAUGE, "When the licence ends."),
    Family("vgpumgr_vgpu_encoder_sessions", GAUGE, "Video encoder sessions of the guest."),
    Family("vgpumgr_vgpu_capture_frames_per_second", GAUGE, "Frames that are captured of it."),
    Family("vgpumgr_vgpu_frame_rate_limit", GAUGE, "Frames a second that it is limited to."),
)

INSTANCE_FAMILIES = (
    Family("vgpumgr_gi_framebuffer_used_bytes", GAUGE, "Memory of the GPU instance in use."),
    Family("vgpumgr_gi_sm_utilization_ratio", GAUGE, "Share of its multiprocessors at work."),
)

XIDS_FROM_ZERO = (48, 63, 64, 74, 79, 94, 95, 119, 120)
"""The codes whose series are there at 0 from the first sample on: an increase from nothing is none
to Prometheus."""

"""The figures that a host tells of its GPUs, and the series of metrics that each becomes.

A *figure* is one whole number in the unit that its name ends with. What is told, in which unit, by
which NVML function: docs/metrics.md.
"""

from __future__ import annotations

from typing import NamedTuple

GAUGE, COUNTER = "gauge", "counter"


class Family(NamedTuple):
    """One family of series: its name, type and the sentence that explains it."""

    name: str
    kind: str
    help: str


class Figure(NamedTuple):
    """One figure: ``scale`` makes the base unit of its family of it, ``labels`` are what its series
    has besides those of its GPU. It is from ``least`` to ``most``. ``detail``: only where all
    series are asked for.
    """

    name: str
    family: str
    most: float
    scale: float = 1.0
    labels: tuple[tuple[str, str], ...] = ()
    least: float = 0
    detail: bool = False


_SHARE, _MILLI, _MEGA, _NANO = 0.01, 0.001, 1e6, 1e-9
_PERCENT, _DEGREES, _COUNT, _BYTES = 100, 300, 2**53 - 1, 2**53 - 1
_MILLIWATTS, _MEGAHERTZ, _GROUPS = 100_000_000, 100_000, 1_000_000

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
    Family("vgpumgr_gpu_pcie_link", GAUGE, "Lanes and generation of the PCIe link."),
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


def _figures(
    family: str,
    key: str,
    values: dict[str, str],
    most: float,
    scale: float = 1.0,
    *,
    plain: tuple[str, ...] = (),
) -> list[Figure]:
    """Figures of one family, by the value of its label; those in ``plain`` are no detail."""
    return [
        Figure(name, family, most, scale, ((key, value),), detail=name not in plain)
        for name, value in values.items()
    ]


GPU_FIGURES = (
    Figure("utilization_percent", "vgpumgr_gpu_utilization_ratio", _PERCENT, _SHARE),
    Figure("memory_copy_percent", "vgpumgr_gpu_memory_copy_utilization_ratio", _PERCENT, _SHARE),
    Figure("encoder_percent", "vgpumgr_gpu_encoder_utilization_ratio", _PERCENT, _SHARE),
    Figure("decoder_percent", "vgpumgr_gpu_decoder_utilization_ratio", _PERCENT, _SHARE),
    Figure("framebuffer_total_bytes", "vgpumgr_gpu_framebuffer_total_bytes", _BYTES),
    Figure("framebuffer_used_bytes", "vgpumgr_gpu_framebuffer_used_bytes", _BYTES),
    Figure("framebuffer_reserved_bytes", "vgpumgr_gpu_framebuffer_reserved_bytes", _BYTES),
    *_figures(
        "vgpumgr_gpu_temperature_celsius",
        "sensor",
        {"temperature_gpu_c": "gpu", "temperature_memory_c": "memory"},
        _DEGREES,
        plain=("temperature_gpu_c", "temperature_memory_c"),
    ),
    Figure("margin_c", "vgpumgr_gpu_temperature_margin_celsius", _DEGREES, least=-_DEGREES),
    *_figures(
        "vgpumgr_gpu_temperature_threshold_celsius",
        "kind",
        {
            "threshold_shutdown_c": "shutdown",
            "threshold_slowdown_c": "slowdown",
            "threshold_gpu_max_c": "gpu_max",
            "threshold_memory_max_c": "mem_max",
        },
        _DEGREES,
    ),
    Figure("power_mw", "vgpumgr_gpu_power_watts", _MILLIWATTS, _MILLI),
    *_figures(
        "vgpumgr_gpu_power_limit_watts",
        "kind",
        {
            "limit_enforced_mw": "enforced",
            "limit_requested_mw": "requested",
            "limit_default_mw": "default",
            "limit_min_mw": "min",
            "limit_max_mw": "max",
        },
        _MILLIWATTS,
        _MILLI,
        plain=("limit_enforced_mw",),
    ),
    Figure("energy_mj", "vgpumgr_gpu_energy_joules_total", _COUNT, _MILLI),
    *_figures(
        "vgpumgr_gpu_clock_hertz",
        "domain",
        {"clock_sm_mhz": "sm", "clock_memory_mhz": "memory", "clock_video_mhz": "video"},
        _MEGAHERTZ,
        _MEGA,
        plain=("clock_sm_mhz",),
    ),
    *_figures(
        "vgpumgr_gpu_throttle_seconds_total",
        "reason",
        {
            "throttle_power_ns": "power",
            "throttle_sw_thermal_ns": "sw_thermal",
            "throttle_hw_thermal_ns": "hw_thermal",
            "throttle_power_brake_ns": "power_brake",
            "throttle_sync_ns": "sync",
        },
        2**63,
        _NANO,
        plain=(
            "throttle_power_ns",
            "throttle_sw_thermal_ns",
            "throttle_hw_thermal_ns",
            "throttle_power_brake_ns",
        ),
    ),
    *_figures(
        "vgpumgr_gpu_throttled",
        "reason",
        {
            "throttled_power": "power",
            "throttled_sw_thermal": "sw_thermal",
            "throttled_hw_thermal": "hw_thermal",
            "throttled_power_brake": "power_brake",
            "throttled_sync": "sync",
        },
        1,
    ),
    *(
        Figure(
            f"ecc_{kind}_{since}",
            "vgpumgr_gpu_ecc_errors_total",
            _COUNT,
            labels=(("type", kind), ("since", since)),
            detail=since == "life",
        )
        for since in ("boot", "life")
        for kind in ("corrected", "uncorrected")
    ),
    *_figures(
        "vgpumgr_gpu_remapped_rows",
        "cause",
        {"rows_corrected": "corrected", "rows_uncorrected": "uncorrected"},
        _COUNT,
        plain=("rows_uncorrected",),
    ),
    Figure("rows_pending", "vgpumgr_gpu_row_remap_pending", 1),
    Figure("rows_failed", "vgpumgr_gpu_row_remap_failed", 1),
    *_figures(
        "vgpumgr_gpu_remap_banks",
        "left",
        {f"banks_{left}": left for left in ("max", "high", "partial", "low", "none")},
        _GROUPS,
    ),
    *_figures(
        "vgpumgr_gpu_retired_pages",
        "cause",
        {"pages_single_bit": "single_bit", "pages_double_bit": "double_bit"},
        _COUNT,
        plain=("pages_double_bit",),
    ),
    Figure("recovery_action", "vgpumgr_gpu_recovery_action", 255),
    Figure("pcie_replays", "vgpumgr_gpu_pcie_replays_total", _COUNT),
    *_figures(
        "vgpumgr_gpu_pcie_bytes_total",
        "direction",
        {"pcie_tx_bytes": "tx", "pcie_rx_bytes": "rx"},
        2**64,
        plain=("pcie_tx_bytes", "pcie_rx_bytes"),
    ),
    *(
        Figure(name, "vgpumgr_gpu_pcie_link", 256, labels=(("what", what), ("of", of)))
        for name, what, of in (
            ("link_width", "width", "now"),
            ("link_width_max", "width", "max"),
            ("link_gen", "gen", "now"),
            ("link_gen_max", "gen", "max"),
        )
    ),
    *_figures(
        "vgpumgr_gpu_nvlink_errors_total",
        "kind",
        {f"nvlink_{kind}_errors": kind for kind in ("ecc", "replay", "recovery", "crc")},
        _COUNT,
        plain=("nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_errors"),
    ),
    *_figures(
        "vgpumgr_gpu_nvlink_bytes_total",
        "direction",
        {"nvlink_tx_bytes": "tx", "nvlink_rx_bytes": "rx"},
        2**64,
        plain=("nvlink_tx_bytes", "nvlink_rx_bytes"),
    ),
)

# Of the kernel, for a GPU that no driver here reports on; codes of XID_FAMILY.
AER_FIGURES = ("aer_correctable", "aer_nonfatal", "aer_fatal")

VGPU_FIGURES = (
    *_figures(
        "vgpumgr_vgpu_utilization_ratio",
        "engine",
        {
            "sm_percent": "sm",
            "memory_percent": "memory",
            "encoder_percent": "encoder",
            "decoder_percent": "decoder",
        },
        _PERCENT,
        _SHARE,
        plain=("sm_percent",),
    ),
    Figure("framebuffer_used_bytes", "vgpumgr_vgpu_framebuffer_used_bytes", _BYTES),
    Figure("framebuffer_total_bytes", "vgpumgr_vgpu_framebuffer_total_bytes", _BYTES),
    Figure("licensed", "vgpumgr_vgpu_licensed", 1),
    Figure("license_expiry_s", "vgpumgr_vgpu_license_expiry_timestamp_seconds", 2**40, detail=True),
    Figure("encoder_sessions", "vgpumgr_vgpu_encoder_sessions", 1_000_000),
    Figure("capture_fps", "vgpumgr_vgpu_capture_frames_per_second", 1_000_000),
    Figure("frame_rate_limit", "vgpumgr_vgpu_frame_rate_limit", 1_000_000, detail=True),
)

INSTANCE_FIGURES = (
    Figure("framebuffer_used_bytes", "vgpumgr_gi_framebuffer_used_bytes", _BYTES),
    Figure("sm_per_myriad", "vgpumgr_gi_sm_utilization_ratio", 10_000, 0.0001),
)

XIDS_FROM_ZERO = (48, 63, 64, 74, 79, 94, 95, 119, 120)
"""The codes whose series are there at 0 from the first sample on: an increase from nothing is none
to Prometheus."""

"""The figures that a host tells of its GPUs, and the series of metrics that each becomes.

A *figure* is one whole number in the unit that its name ends with. What is told, in which unit, by
which NVML function: docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


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


def within(table: Sequence[Figure], figures: Mapping[str, int]) -> dict[str, int]:
    """The figures that can be: what a driver fills in where it has measured nothing is none."""
    limits = {each.name: each for each in table}
    return {
        name: value
        for name, value in figures.items()
        if name in limits and limits[name].least <= value <= limits[name].most
    }


_SHARE, _MILLI, _MEGA, _NANO = 0.01, 0.001, 1e6, 1e-9
_FLAG, _PERCENT, _DEGREES, _COUNT = 1, 100, 300, 2**53 - 1
_MILLIWATTS, _MEGAHERTZ, _SECONDS, _TRAFFIC = 100_000_000, 100_000, 2**40, 2**64
# What stands behind a figure that is a detail.
_DETAIL = "+"


def _series(family: str, most: float, scale: float, *figures: str) -> list[Figure]:
    """``clock_video_mhz domain=video +`` is a figure with its label, and a detail."""
    found = []
    for words in map(str.split, figures):
        pairs = (word.partition("=") for word in words[1:] if word != _DETAIL)
        labels = tuple((key, value) for key, _, value in pairs)
        name, detail = words[0], _DETAIL in words
        found.append(Figure(name, f"vgpumgr_{family}", most, scale, labels, detail=detail))
    return found


GPU_FIGURES = (
    *_series("gpu_utilization_ratio", _PERCENT, _SHARE, "utilization_percent"),
    *_series("gpu_memory_copy_utilization_ratio", _PERCENT, _SHARE, "memory_copy_percent"),
    *_series("gpu_encoder_utilization_ratio", _PERCENT, _SHARE, "encoder_percent"),
    *_series("gpu_decoder_utilization_ratio", _PERCENT, _SHARE, "decoder_percent"),
    *_series("gpu_framebuffer_total_bytes", _COUNT, 1, "framebuffer_total_bytes"),
    *_series("gpu_framebuffer_used_bytes", _COUNT, 1, "framebuffer_used_bytes"),
    *_series("gpu_framebuffer_reserved_bytes", _COUNT, 1, "framebuffer_reserved_bytes"),
    *_series(
        *("gpu_temperature_celsius", _DEGREES, 1),
        *("temperature_gpu_c sensor=gpu", "temperature_memory_c sensor=memory"),
    ),
    Figure("margin_c", "vgpumgr_gpu_temperature_margin_celsius", _DEGREES, least=-_DEGREES),
    *_series(
        *("gpu_temperature_threshold_celsius", _DEGREES, 1),
        *("threshold_shutdown_c kind=shutdown +", "threshold_slowdown_c kind=slowdown +"),
        *("threshold_gpu_max_c kind=gpu_max +", "threshold_memory_max_c kind=mem_max +"),
    ),
    *_series("gpu_power_watts", _MILLIWATTS, _MILLI, "power_mw"),
    *_series(
        *("gpu_power_limit_watts", _MILLIWATTS, _MILLI),
        *("limit_enforced_mw kind=enforced", "limit_requested_mw kind=requested +"),
        *("limit_default_mw kind=default +", "limit_min_mw kind=min +", "limit_max_mw kind=max +"),
    ),
    *_series("gpu_energy_joules_total", _COUNT, _MILLI, "energy_mj"),
    *_series(
        *("gpu_clock_hertz", _MEGAHERTZ, _MEGA),
        *("clock_sm_mhz domain=sm", "clock_memory_mhz domain=memory +"),
        "clock_video_mhz domain=video +",
    ),
    *_series(
        *("gpu_throttle_seconds_total", _TRAFFIC, _NANO),
        *("throttle_power_ns reason=power", "throttle_sw_thermal_ns reason=sw_thermal"),
        *("throttle_hw_thermal_ns reason=hw_thermal", "throttle_power_brake_ns reason=power_brake"),
        "throttle_sync_boost_ns reason=sync_boost +",
    ),
    *_series(
        *("gpu_throttled", _FLAG, 1),
        *("throttled_power reason=power +", "throttled_sw_thermal reason=sw_thermal +"),
        *("throttled_hw_thermal reason=hw_thermal +", "throttled_power_brake reason=power_brake +"),
        "throttled_sync_boost reason=sync_boost +",
    ),
    *_series(
        *("gpu_ecc_errors_total", _COUNT, 1),
        "ecc_corrected_boot type=corrected since=boot",
        "ecc_uncorrected_boot type=uncorrected since=boot",
        "ecc_corrected_life type=corrected since=life +",
        "ecc_uncorrected_life type=uncorrected since=life +",
    ),
    *_series(
        *("gpu_remapped_rows", _COUNT, 1),
        *("rows_corrected cause=corrected +", "rows_uncorrected cause=uncorrected"),
    ),
    *_series("gpu_row_remap_pending", _FLAG, 1, "rows_pending"),
    *_series("gpu_row_remap_failed", _FLAG, 1, "rows_failed"),
    *_series(
        *("gpu_remap_banks", _COUNT, 1),
        *("banks_max left=max +", "banks_high left=high +", "banks_partial left=partial +"),
        *("banks_low left=low +", "banks_none left=none +"),
    ),
    *_series(
        *("gpu_retired_pages", _COUNT, 1),
        *("pages_single_bit cause=single_bit +", "pages_double_bit cause=double_bit"),
    ),
    *_series("gpu_recovery_action", 255, 1, "recovery_action"),
    *_series("gpu_pcie_replays_total", _COUNT, 1, "pcie_replays"),
    *_series(
        *("gpu_pcie_bytes_total", _TRAFFIC, 1),
        *("pcie_tx_bytes direction=tx", "pcie_rx_bytes direction=rx"),
    ),
    *_series(
        *("gpu_pcie_link", 256, 1),
        *("link_width what=width of=now", "link_width_max what=width of=max"),
        *("link_gen what=gen of=now", "link_gen_max what=gen of=max"),
    ),
    *_series(
        *("gpu_nvlink_errors_total", _COUNT, 1),
        *("nvlink_ecc_errors kind=ecc +", "nvlink_replay_errors kind=replay"),
        *("nvlink_recovery_errors kind=recovery", "nvlink_crc_errors kind=crc"),
    ),
    *_series(
        *("gpu_nvlink_bytes_total", _TRAFFIC, 1),
        *("nvlink_tx_bytes direction=tx", "nvlink_rx_bytes direction=rx"),
    ),
)

# The kernel's own, for a GPU of which no driver here tells: codes of the family of Xids.
AER_FIGURES = ("aer_correctable", "aer_nonfatal", "aer_fatal")

VGPU_FIGURES = (
    *_series(
        *("vgpu_utilization_ratio", _PERCENT, _SHARE),
        *("sm_percent engine=sm", "memory_percent engine=memory +"),
        *("encoder_percent engine=encoder +", "decoder_percent engine=decoder +"),
    ),
    *_series("vgpu_framebuffer_used_bytes", _COUNT, 1, "framebuffer_used_bytes"),
    *_series("vgpu_framebuffer_total_bytes", _COUNT, 1, "framebuffer_total_bytes"),
    *_series("vgpu_licensed", _FLAG, 1, "licensed"),
    *_series("vgpu_license_expiry_timestamp_seconds", _SECONDS, 1, "license_expiry_s +"),
    *_series("vgpu_encoder_sessions", 1_000_000, 1, "encoder_sessions"),
    *_series("vgpu_capture_frames_per_second", 1_000_000, 1, "capture_fps"),
    *_series("vgpu_frame_rate_limit", 1_000_000, 1, "frame_rate_limit +"),
)

INSTANCE_FIGURES = (
    *_series("gi_framebuffer_used_bytes", _COUNT, 1, "framebuffer_used_bytes"),
    *_series("gi_sm_utilization_ratio", 10_000, 0.0001, "sm_per_myriad"),
)

"""The figures of a GPU that the kernel tells, whatever driver it is on: its PCIe link and errors,
and for drivers with a hardware monitor (amdgpu, xe, i915) temperature, power and memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from vgpumgr.helper import pci, sysfs
from vgpumgr.helper.system import System

Figures = dict[str, int]
T = TypeVar("T")

# By the transfer rate of a lane in GT/s (PCI Express base specification).
_GENERATIONS = {"2.5": 1, "5": 2, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
_RATE = re.compile(r"([0-9.]+) GT/s")
_AER = {
    "aer_correctable": ("aer_dev_correctable", "TOTAL_ERR_COR"),
    "aer_nonfatal": ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    "aer_fatal": ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
}
# Documentation/gpu/amdgpu/thermal.rst and Documentation/hwmon: micro-watts, micro-joules, m°C.
_DEVICE_FILES = {
    "utilization_percent": ("gpu_busy_percent", 1),
    "memory_copy_percent": ("mem_busy_percent", 1),
    "framebuffer_total_bytes": ("mem_info_vram_total", 1),
    "framebuffer_used_bytes": ("mem_info_vram_used", 1),
}
_MONITOR_FILES = (
    ("temperature_gpu_c", "temp1_input", 1000),
    ("power_mw", "power1_average", 1000),
    ("power_mw", "power1_input", 1000),
    ("limit_enforced_mw", "power1_cap", 1000),
    ("limit_max_mw", "power1_cap_max", 1000),
    ("energy_mj", "energy1_input", 1000),
)
# What is read through the driver of the board itself, and no other.
_MONITORED = frozenset({"amdgpu", "xe", "i915"})


def read(system: System, address: str, driver: str | None) -> Figures:
    """What there is; a file that is not there, or says nothing, is left out."""
    folder = pci.path(address)
    found = _link(system, folder)
    if driver != "nvidia":
        found.update(_errors(system, folder))
    if driver in _MONITORED:
        found.update(_monitored(system, folder))
    return found


def _link(system: System, folder: str) -> Figures:
    found: Figures = {}
    for ending, kind in (("", "current"), ("_max", "max")):
        width = _number(system, f"{folder}/{kind}_link_width")
        rate = _RATE.match(_text(system, f"{folder}/{kind}_link_speed") or "")
        generation = _GENERATIONS.get(rate.group(1)) if rate else None
        # Of a function that fell off the bus all bits are read as ones: no speed, 63 lanes.
        if generation is not None and width:
            found[f"link_gen{ending}"] = generation
            found[f"link_width{ending}"] = width
    return found


def _errors(system: System, folder: str) -> Figures:
    found: Figures = {}
    for name, (file, word) in _AER.items():
        total = re.search(rf"^{word} (\d+)$", _text(system, f"{folder}/{file}") or "", re.MULTILINE)
        if total:
            found[name] = int(total.group(1))
    return found


def _monitored(system: System, folder: str) -> Figures:
    found: Figures = {}
    for name, (file, divisor) in _DEVICE_FILES.items():
        _take(found, name, _number(system, f"{folder}/{file}"), divisor)
    monitors = _tried(lambda: list(system.list(f"{folder}/hwmon"))) or []
    for monitor in monitors[:1]:
        for name, file, divisor in _MONITOR_FILES:
            _take(found, name, _number(system, f"{folder}/hwmon/{monitor}/{file}"), divisor)
    return found


def _take(found: Figures, name: str, value: int | None, divisor: int) -> None:
    if value is not None and name not in found:
        found[name] = value // divisor


def _number(system: System, path: str) -> int | None:
    text = _text(system, path) or ""
    return int(text) if text.isdigit() else None


def _text(system: System, path: str) -> str | None:
    return _tried(lambda: sysfs.text(system, path))


def _tried(read: Callable[[], T]) -> T | None:
    """What is read; None where the kernel refuses: one figure less."""
    try:
        return read()
    except OSError:
        return None

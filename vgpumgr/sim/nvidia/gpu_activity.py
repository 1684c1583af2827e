"""What a simulated GPU and its vGPUs do: the same for the same moment, and what follows from it.

Each running vGPU asks for a share of its GPU that rises and falls with a period and a phase of its
own; where all ask for more than there is, each gets its part. Power, heat and clocks follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvidia.vgpus import Vgpu

_ARCHITECTURES = ("maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")
_IDLE_SHARE_OF_POWER = 0.15
_ASLEEP = 0.02
_COLD_C, _RISE_C, _MEMORY_ABOVE_C = 31.0, 46.0, 9.0
_HOT_C, _SLOWDOWN_C = 93.0, 90.0
# Sizes of what flows at full load, in bytes a second.
_PCIE_BYTES_S, _NVLINK_BYTES_S = 4e9, 20e9
# nvmlClocksEventReasons: idle, the software's power cap, heat that the hardware sees.
IDLE, POWER_CAP, HW_THERMAL = 0x1, 0x4, 0x40


@dataclass(frozen=True, slots=True)
class VgpuLoad:
    """Shares from 0 to 1: of the GPU's time by engine, and of the vGPU's memory."""

    sm: float
    memory: float
    encoder: float
    decoder: float
    framebuffer: float


@dataclass(slots=True)
class Meters:
    """Counters since the driver was loaded, in NVML's units."""

    energy_mj: float = 0.0
    pcie_tx: float = 0.0
    pcie_rx: float = 0.0
    nvlink_tx: float = 0.0
    nvlink_rx: float = 0.0
    throttle_ns: dict[int, float] = field(default_factory=dict)


class GpuActivity:
    """``now`` is the host's time in seconds. ``busy``, ``calm`` and ``hot`` are injected."""

    def __init__(self, gpu: NvidiaGpu, now: Callable[[], float]) -> None:
        self.gpu = gpu
        self.watts = gpu.power.default_mw // 1000
        self.busy = False
        self.calm = False
        self.hot = False
        self._now = now
        self._read_at = now()
        self._meters = Meters()

    def since(self, architecture: str) -> bool:
        """Is the board of this architecture, or of a later one?"""
        found = self.gpu.model.arch
        return found in _ARCHITECTURES and _ARCHITECTURES.index(found) >= _ARCHITECTURES.index(
            architecture
        )

    @property
    def has_hbm(self) -> bool:
        """Memory that has a sensor of its own, and ECC that costs nothing."""
        model = self.gpu.model
        return model.arch == "volta" or (model.mig_capable and not model.key.startswith("RTX"))

    def load(self, vgpu: Vgpu) -> VgpuLoad:
        """What a running vGPU does now."""
        sm = self._wanted(vgpu) / max(1.0, self._all_wanted())
        if self.busy:
            sm = 1.0 / max(1, len(self._running()))
        if self.calm:
            sm = 0.0
        seconds = self._now()
        full = 0.35 + 0.5 * _wave(f"{self.gpu.uuid} {vgpu.handle} memory", seconds / 4)
        return VgpuLoad(sm, sm * 0.5, sm * 0.2, sm * 0.1, full)

    def share(self) -> float:
        """The share of time with work on the GPU, from 0 to 1."""
        if self.calm:
            return 0.0
        if self.busy:
            return 1.0
        return min(1.0, self._all_wanted())

    def rests(self) -> bool:
        """Is it idle?"""
        return self.share() < _ASLEEP

    def milliwatts(self) -> int:
        """From a part of the board's power to all of it."""
        return min(self._asked_milliwatts(), self.gpu.power.limit_mw)

    def _asked_milliwatts(self) -> int:
        """Without the power limit: with the square of the clocks, as voltage falls with them."""
        share = self.share() * self.gpu.power.clock_share**2
        part = _IDLE_SHARE_OF_POWER + (0.97 - _IDLE_SHARE_OF_POWER) * share
        return round(1000 * self.watts * part)

    def _held_to(self) -> float:
        """The share of its full work that power limit and locked clocks leave, from 0 to 1."""
        full = round(1000 * self.watts * 0.97)
        return min(1.0, self.gpu.power.limit_mw / full) * self.gpu.power.clock_share

    def celsius(self) -> int:
        """At the GPU."""
        if self.hot:
            return round(_HOT_C)
        rise = _RISE_C * self.share() * self._held_to()
        return round(_COLD_C + 6 * _fraction(self.gpu.uuid, "site") + rise)

    def memory_celsius(self) -> int:
        """At its memory, where that has a sensor."""
        return self.celsius() + round(_MEMORY_ABOVE_C)

    def slowdown_celsius(self) -> int:
        """Where the clocks are held down."""
        return round(_SLOWDOWN_C)

    def megahertz(self, least: int, most: int) -> int:
        """A clock between its two ends."""
        share = min(self.share(), 0.2) if self.hot else self.share()
        return round(least + (most - least) * share)

    def clock_reasons(self) -> int:
        """NVML's mask."""
        found = HW_THERMAL if self.hot else 0
        capped = self.share() > 0.95 or self._asked_milliwatts() > self.gpu.power.limit_mw
        found |= POWER_CAP if capped else 0
        return found or (IDLE if self.rests() else 0)

    def meters(self) -> Meters:
        """The counters, brought to this moment: what is now was so since they were last read."""
        now, meters = self._now(), self._meters
        seconds, self._read_at = max(0.0, now - self._read_at), now
        meters.energy_mj += seconds * self.milliwatts()
        meters.pcie_tx += seconds * _PCIE_BYTES_S * self.share() / 2
        meters.pcie_rx += seconds * _PCIE_BYTES_S * self.share()
        meters.nvlink_tx += seconds * _NVLINK_BYTES_S * self.share()
        meters.nvlink_rx += seconds * _NVLINK_BYTES_S * self.share()
        for reason in (POWER_CAP, HW_THERMAL):
            held = seconds * 1e9 if self.clock_reasons() & reason else 0.0
            meters.throttle_ns[reason] = meters.throttle_ns.get(reason, 0.0) + held
        return meters

    def _running(self) -> list[Vgpu]:
        return [each for each in self.gpu.vgpus if each.vm]

    def _all_wanted(self) -> float:
        return sum(map(self._wanted, self._running()))

    def _wanted(self, vgpu: Vgpu) -> float:
        who = f"{self.gpu.uuid} {vgpu.handle}"
        least, more = 0.05 + 0.15 * _fraction(who, "least"), 0.3 * _fraction(who, "more")
        return least + more * _wave(who, self._now())


def _wave(who: str, seconds: float) -> float:
    """From 0 to 1 and back, in two to ten minutes."""
    period = 120 + 480 * _fraction(who, "period")
    return 0.5 + 0.5 * math.sin(2 * math.pi * (seconds / period + _fraction(who, "phase")))


def _fraction(who: str, what: str) -> float:
    """A number from 0 to 1 that belongs to it."""
    return int.from_bytes(sha256(f"{who} {what}".encode()).digest()[:4], "big") / 2**32

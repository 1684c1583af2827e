"""How many of a group there are to be by what they measure: triggers, and how long each holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class LoadMetric(StrEnum):
    """What is measured for a desktop, a share from 0 to 1. ``gpu`` is the use of the GPU that its
    vGPU is on, ``engine`` the vGPU's own part of it; ``sessions`` is the share of the pool's
    desktops that users have.
    """

    GPU = "gpu"
    ENGINE = "engine"
    ENCODER = "encoder"
    DECODER = "decoder"
    FRAMEBUFFER = "framebuffer"
    SESSIONS = "sessions"

    @property
    def measured(self) -> bool:
        """Is it told by hosts? The ledger knows the other."""
        return self is not LoadMetric.SESSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleTrigger:
    """More are needed where the mean of the metric is above ``threshold`` (a share above 0)."""

    metric: LoadMetric
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePolicy:
    """There are more once a trigger has asked for more for ``sustained_s`` seconds, and fewer once
    none has asked for as many for ``cooldown_s``. Of several triggers the one that asks for most
    counts.
    """

    triggers: tuple[ScaleTrigger, ...]
    sustained_s: float = 300.0
    cooldown_s: float = 600.0


_REPLICA = re.compile(r"(.+)-([0-9]{2,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScale:
    """A group of replicas, ``NAME-01`` and so on, of which there are ``least`` to ``most``."""

    group: str
    least: int
    most: int
    policy: ScalePolicy

    def name(self, number: int) -> str:
        """The name of a replica, from 1 on."""
        return f"{self.group}-{number:02d}"

    def number(self, name: str) -> int:
        """The number of the replica of this name; 0 where it is none."""
        found = _REPLICA.fullmatch(name)
        if found is None or found[1] != self.group or self.name(int(found[2])) != name:
            return 0
        return int(found[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindow:
    """What the last minutes ask for: ``least`` is the number that was wanted all through the
    sustained time (0: none was), ``most`` the largest that may have been wanted within the
    cooldown; None: that is not known. ``silent`` are members that told nothing all through it.
    """

    least: int = 0
    most: int | None = None
    silent: int = 0

    def wanted(self, have: int) -> int:
        """How many there are to be, where there are ``have``: without evidence as many."""
        if self.least > have or self.most is None:
            return max(self.least, have)
        return min(self.most, have)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmLoad:
    """What the vGPUs of a VM (its id) did at ``at`` (Unix seconds): of several the busiest; None
    is not told. Shares from 0 to 1, of engines by the GPU's time; ``gpu`` is that of all vGPUs on
    the same GPU together.
    """

    vm: str
    at: float
    gpu: float | None = None
    engine: float | None = None
    encoder: float | None = None
    decoder: float | None = None
    framebuffer: float | None = None

    def share(self, metric: LoadMetric) -> float | None:
        """The metric's value."""
        return {
            LoadMetric.GPU: self.gpu,
            LoadMetric.ENGINE: self.engine,
            LoadMetric.ENCODER: self.encoder,
            LoadMetric.DECODER: self.decoder,
            LoadMetric.FRAMEBUFFER: self.framebuffer,
        }.get(metric)

    @property
    def work(self) -> float | None:
        """The busiest of its own engines; None where none is told."""
        told = [each for each in (self.engine, self.encoder, self.decoder) if each is not None]
        return max(told, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoads:
    """The newest loads by the VM's id; ``at`` is when hosts were asked, 0 where none were."""

    at: float = 0.0
    vms: Mapping[str, VmLoad] = field(default_factory=dict)


NO_LOADS = MeasuredLoads()


class LoadSource(Protocol):
    """Where the newest loads are found."""

    def newest(self) -> MeasuredLoads:
        """The newest; NO_LOADS where there are none of now."""


class NoLoadSource:
    """Of a process that has none."""

    def newest(self) -> MeasuredLoads:
        """None."""
        return NO_LOADS

"""A rack over a trace: what it draws, what its breaker takes, and the clocks that work loses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.power.demand import STEP_S, PowerPoints, Watts
from vgpumgr.model.power import PowerClass
from vgpumgr.power.power_bands import (
    POWER_OF_CLOCK,
    BudgetLoad,
    CapState,
    GpuLoad,
    HeldTo,
    decide,
)

FULL_MHZ = 1410
# Peaks above the limit: the trace's 99th percentile is 440 W where the limit is 400 W.
OVERSHOOT = 1.1
# The mix of classes among the GPUs, in turn: 3 spot, 4 reserved, 3 on demand of ten.
MIX = (
    *(PowerClass.SPOT, PowerClass.RESERVED, PowerClass.ON_DEMAND) * 3,
    PowerClass.RESERVED,
)


@dataclass(frozen=True, kw_only=True)
class RackReplay:
    """Seconds over the breaker's curve and over the budget; GPU-hours of work; lost clocks."""

    breaker_s: int
    over_s: int
    peak: float
    busy_gpu_hours: float
    clock_loss: dict[str, float]
    caps: int


@dataclass
class Breaker:
    """Heat of an inverse-time breaker: it trips where ``heat`` reaches 1."""

    points: PowerPoints
    heat: float = 0.0
    tripped_s: int = 0

    def step(self, ratio: float) -> None:
        """A step at this share of the budget."""
        whole = self.points.breaker_s * (self.points.breaker_at**2 - 1)
        self.heat = max(0.0, self.heat + STEP_S * (ratio**2 - 1) / whole)
        self.tripped_s += STEP_S * (self.heat >= 1.0)


@dataclass
class _Held:
    """The limits and clock shares of all GPUs."""

    gpus: int
    board_w: float
    limits: Watts = field(init=False)
    clocks: Watts = field(init=False)

    def __post_init__(self) -> None:
        self.limits = np.full(self.gpus, self.board_w)
        self.clocks = np.ones(self.gpus)

    def put(self, caps: dict[str, HeldTo]) -> None:
        """As the controller says."""
        self.limits[:], self.clocks[:] = self.board_w, 1.0
        for gpu, cap in caps.items():
            if cap.limit_w is not None:
                self.limits[int(gpu)] = cap.limit_w
            if cap.clock_mhz is not None:
                self.clocks[int(gpu)] = min(1.0, cap.clock_mhz / FULL_MHZ)


def replay(
    points: PowerPoints, wanted: Watts, budget_w: float, *, period_s: int | None
) -> RackReplay:
    """``period_s`` between two rounds of the controller; None: nothing is capped."""
    steps, gpus = wanted.shape
    held, breaker, state = _Held(gpus, points.board_w), Breaker(points), CapState()
    kinds = [MIX[n % len(MIX)] for n in range(gpus)]
    lost, busy = np.zeros(gpus), np.zeros(gpus)
    over = caps = 0
    peak = 0.0
    for step in range(steps):
        drawn, share = _drawn(points, wanted[step], held)
        total = float(drawn.sum())
        working = wanted[step] > points.idle_w * 1.5
        lost += np.where(working, 1.0 - share, 0.0)
        busy += working
        breaker.step(total / budget_w)
        over, peak = over + STEP_S * (total > budget_w), max(peak, total / budget_w)
        if period_s is not None and STEP_S * step % period_s == 0:
            before = state.caps
            state = _round(points, drawn, share, kinds, budget_w, state)
            if state.caps is not before and state.caps != before:
                caps += 1
                held.put(dict(state.caps))
    return RackReplay(
        breaker_s=breaker.tripped_s,
        over_s=over,
        peak=round(peak, 4),
        busy_gpu_hours=round(float((busy - lost).sum()) * STEP_S / 3600, 1),
        clock_loss={str(kind): _loss(kinds, kind, lost, busy) for kind in sorted(set(kinds))},
        caps=caps,
    )


def _drawn(points: PowerPoints, wanted: Watts, held: _Held) -> tuple[Watts, Watts]:
    """Watts, and the share of its clocks that each GPU has; power above rest falls with their
    square.
    """
    active = np.maximum(wanted - points.idle_w, 0.0)
    locked = np.minimum(wanted, points.idle_w + active * held.clocks**POWER_OF_CLOCK)
    drawn = np.minimum(locked, held.limits * OVERSHOOT)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(active > 0, np.maximum(drawn - points.idle_w, 0.0) / active, 1.0)
    free = np.minimum(wanted, points.board_w * OVERSHOOT)
    unheld = np.where(active > 0, np.maximum(free - points.idle_w, 0.0) / np.maximum(active, 1), 1)
    share = np.sqrt(np.minimum(1.0, part / np.maximum(unheld, 1e-9)))
    return drawn, share


def _round(
    points: PowerPoints,
    drawn: Watts,
    share: Watts,
    kinds: list[PowerClass],
    budget_w: float,
    state: CapState,
) -> CapState:
    loads = [
        GpuLoad(
            id=str(n),
            kind=kind,
            watts=float(drawn[n]),
            least_w=int(points.least_w),
            most_w=int(points.board_w),
            clock_mhz=int(FULL_MHZ * share[n]),
        )
        for n, kind in enumerate(kinds)
    ]
    rack = BudgetLoad(
        name="rack", watts=budget_w, base_w=0.0, gpus=tuple(each.id for each in loads)
    )
    return decide([rack], loads, state)


def _loss(kinds: list[PowerClass], kind: PowerClass, lost: Watts, busy: Watts) -> float:
    which = [n for n, each in enumerate(kinds) if each is kind]
    return round(float(lost[which].sum() / max(1.0, busy[which].sum())), 5)

"""The three bands of a power budget: what is capped, by how much, and when a cap is lifted. Pure.

At 99 % of a budget GPUs are capped until 95 % is expected; below 90 %, for some rounds, caps are
lifted step by step. Between the bands nothing changes. Victims come by class (spot, reserved, on
demand), in a class the one that is furthest over its fair share first; first its clocks are locked,
then its power is limited. Above the budget itself there is no time for that: the lowest limits are
set at once, class by class, until what they guarantee suffices. Source of the bands: Wu et al.,
Dynamo, ISCA 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.model.power import PowerClass

# Clocks are not locked below this share of what they are: the limit does the rest.
LEAST_CLOCK_SHARE = 0.6
LEAST_MHZ = 210
# The power of work falls about with the square of the clock, as the voltage falls with it.
POWER_OF_CLOCK = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Shares of a budget, and the rounds in a row below the lowest after which caps are lifted."""

    cap_at: float = 0.99
    cap_to: float = 0.95
    uncap_below: float = 0.90
    calm_rounds: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTo:
    """A cap: ``limit_w`` in watts, ``clock_mhz`` the most that clocks may be; None: not by that."""

    limit_w: int | None = None
    clock_mhz: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """A GPU that draws ``watts``. Its limit may be from ``least_w`` to ``most_w``, which is what it
    has without a cap. ``clock_mhz`` is its clock now; None: not told. ``cappable``: its driver
    can be asked (a GPU that a guest has whole cannot).
    """

    id: str
    kind: PowerClass
    watts: float
    least_w: int
    most_w: int
    clock_mhz: int | None = None
    cappable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLoad:
    """A budget in watts, what its hosts draw without their GPUs, and the ids of its GPUs."""

    name: str
    watts: float
    base_w: float
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapState:
    """The caps by GPU, and for how many rounds each budget has been calm."""

    caps: Mapping[str, HeldTo] = field(default_factory=dict)
    calm: Mapping[str, int] = field(default_factory=dict)


class _Round:
    """One decision under way: caps as they become, and the watts to be expected of each GPU."""

    def __init__(self, gpus: Iterable[GpuLoad], state: CapState, bands: Bands) -> None:
        self.gpus = {each.id: each for each in gpus}
        self.caps = {gpu: cap for gpu, cap in state.caps.items() if gpu in self.gpus}
        self.before = dict(self.caps)
        self.watts = {each.id: each.watts for each in self.gpus.values()}
        self.calm = dict(state.calm)
        self.bands = bands

    def load(self, budget: BudgetLoad) -> float:
        """What is to be expected under a budget, in watts."""
        return budget.base_w + sum(self.watts[gpu] for gpu in budget.gpus)

    def measured(self, budget: BudgetLoad) -> float:
        """What was measured under a budget, in watts."""
        return budget.base_w + sum(self.gpus[gpu].watts for gpu in budget.gpus)

    def victims(self, budget: BudgetLoad) -> Iterator[GpuLoad]:
        """GPUs in the order in which they are capped."""
        fair = max(0.0, budget.watts - budget.base_w) / max(1, len(budget.gpus))
        found = [self.gpus[gpu] for gpu in budget.gpus if self.gpus[gpu].cappable]
        yield from sorted(
            found, key=lambda each: (each.kind.rank, fair - self.watts[each.id], each.id)
        )

    def hold(self, gpu: GpuLoad, watts: float, **changes: object) -> None:
        """A cap on it, after which it is expected to draw so much at most."""
        self.caps[gpu.id] = replace(self.caps.get(gpu.id, HeldTo()), **changes)  # type: ignore[arg-type]
        self.watts[gpu.id] = min(self.watts[gpu.id], watts)


def decide(
    budgets: Sequence[BudgetLoad],
    gpus: Iterable[GpuLoad],
    state: CapState,
    bands: Bands | None = None,
) -> CapState:
    """The caps that are due now; ``budgets`` are leaves before their parents."""
    now = _Round(gpus, state, bands or Bands())
    for budget in budgets:
        _hold_within(now, budget)
    _lift(now, budgets)
    known = {each.name for each in budgets}
    calm = {name: rounds for name, rounds in now.calm.items() if name in known}
    return CapState(caps=now.caps, calm=calm)


def _hold_within(now: _Round, budget: BudgetLoad) -> None:
    load, bands = now.load(budget), now.bands
    if load > budget.watts:
        _fall_back(now, budget)
    elif load >= bands.cap_at * budget.watts:
        _cap(now, budget)
    is_calm = now.measured(budget) < bands.uncap_below * budget.watts
    now.calm[budget.name] = now.calm.get(budget.name, 0) + 1 if is_calm else 0


def _fall_back(now: _Round, budget: BudgetLoad) -> None:
    """Lowest limits at once, until what they guarantee is below the band."""
    goal = now.bands.cap_to * budget.watts
    for gpu in now.victims(budget):
        if now.load(budget) <= goal:
            return
        now.hold(gpu, gpu.least_w, limit_w=gpu.least_w, why=budget.name)


def _cap(now: _Round, budget: BudgetLoad) -> None:
    """Clocks of who has none locked, limits of the others, each as far as is needed."""
    goal = now.bands.cap_to * budget.watts
    for gpu in now.victims(budget):
        need = now.load(budget) - goal
        if need <= 0:
            return
        cap, before = now.caps.get(gpu.id, HeldTo()), now.watts[gpu.id]
        # Peaks go above a limit: the next one is lower than what is enforced, in any case.
        limit = min(before, gpu.most_w if cap.limit_w is None else cap.limit_w)
        less = min(need, limit - gpu.least_w)
        if less <= 0:
            continue
        if gpu.clock_mhz is not None and cap == HeldTo(why=cap.why):
            share = max(LEAST_CLOCK_SHARE, (1 - less / before) ** (1 / POWER_OF_CLOCK))
            clock = max(LEAST_MHZ, int(gpu.clock_mhz * share))
            now.hold(gpu, before * share**POWER_OF_CLOCK, clock_mhz=clock, why=budget.name)
        else:
            now.hold(gpu, before - less, limit_w=int(limit - less), why=budget.name)


def _lift(now: _Round, budgets: Sequence[BudgetLoad]) -> None:
    """Caps of GPUs all of whose budgets are calm, the most precious class first, as far as they
    may then draw what they are given; a limit before a lock.
    """
    over: dict[str, list[BudgetLoad]] = {gpu: [] for gpu in now.caps}
    for budget in budgets:
        for gpu in budget.gpus:
            if gpu in over:
                over[gpu].append(budget)
    lifted: set[str] = set()
    for gpu in sorted(over, key=lambda each: (-now.gpus[each].kind.rank, each)):
        unchanged = now.gpus[gpu].cappable and now.before.get(gpu) == now.caps[gpu]
        if unchanged and all(_is_calm(now, each) for each in over[gpu]):
            room = min(
                (now.bands.cap_to * each.watts - now.load(each) for each in over[gpu]),
                default=float("inf"),
            )
            if _raised(now, now.gpus[gpu], room):
                lifted.update(each.name for each in over[gpu])
    for name in lifted:
        now.calm[name] = 0


def _is_calm(now: _Round, budget: BudgetLoad) -> bool:
    return now.calm.get(budget.name, 0) >= now.bands.calm_rounds


def _raised(now: _Round, gpu: GpuLoad, room: float) -> bool:
    """Was its cap lifted, or a part of it? It is expected to draw all that it gets."""
    cap, drawn = now.caps[gpu.id], now.watts[gpu.id]
    if cap.limit_w is not None:
        limit = int(min(gpu.most_w, max(cap.limit_w, drawn + room)))
        if limit <= cap.limit_w:
            return False
        now.watts[gpu.id] = max(drawn, float(limit))
        left = None if limit >= gpu.most_w else limit
        _put(now, gpu.id, replace(cap, limit_w=left))
        return True
    if gpu.most_w - drawn > room:
        return False
    now.watts[gpu.id] = max(drawn, float(gpu.most_w))
    _put(now, gpu.id, replace(cap, clock_mhz=None))
    return True


def _put(now: _Round, gpu: str, cap: HeldTo) -> None:
    if cap.limit_w is None and cap.clock_mhz is None:
        del now.caps[gpu]
    else:
        now.caps[gpu] = cap

"""Power budgets, and the caps by which the controller holds GPUs below them. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class PowerClass(StrEnum):
    """For whom a GPU works, in the order in which GPUs are capped; of several guests of a GPU the
    last in this order counts.
    """

    IDLE = "idle"
    SPOT = "spot"
    RESERVED = "reserved"
    ON_DEMAND = "on_demand"

    @property
    def rank(self) -> int:
        """Its number in the order."""
        return list(PowerClass).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerMeter:
    """The Redfish service of a PDU or coolant unit that measures for a budget. ``secret`` names the
    password, ``certificate`` is the SHA-256 of its certificate (empty: an authority vouches).
    """

    url: str
    user: str = ""
    secret: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    """What the meter of a budget measured at ``at`` (Unix seconds): all in watts, by outlet, and
    temperatures of coolant by sensor. ``unread`` are sensors that told nonsense, ``error`` is why
    nothing was read.
    """

    budget: str
    at: float
    watts: float | None = None
    outlets: Mapping[str, float] = field(default_factory=dict)
    coolant_c: Mapping[str, float] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerBudget:
    """``kind: PowerBudget``: what a site, rack, PDU or host may draw, in watts.

    It holds for its hosts, the hosts with all of its labels, and the hosts of the budgets whose
    ``parent`` it is. ``host_watts`` is what each of its hosts draws without its GPUs; None: as the
    parent says, 0 where none does. ``meter`` measures what is drawn under it.
    """

    name: str
    watts: int
    parent: str = ""
    hosts: tuple[str, ...] = ()
    host_labels: Mapping[str, str] = field(default_factory=dict)
    host_watts: int | None = None
    meter: PowerMeter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCap:
    """A GPU that is held below what it may have: a power limit in watts, clocks locked to a range
    in MHz; None: not held by that. ``why`` names the budget or the temperature, ``since`` is when
    it began (Unix seconds).
    """

    gpu: str
    host: str
    limit_w: int | None = None
    clocks: tuple[int, ...] | None = None
    why: str = ""
    since: float = 0.0


class PowerLedger(Protocol):
    """Power budgets in the ledger, and the GPUs that the controller holds."""

    def power_budgets(self) -> tuple[PowerBudget, ...]:
        """Every power budget, by name."""

    def set_power_budgets(self, budgets: Sequence[PowerBudget]) -> None:
        """Write budgets over those of their names, all at once."""

    def remove_power_budget(self, name: str) -> None:
        """Forget a budget; NotFound, or Conflict while it is another's parent."""

    def power_caps(self, host: str | None = None) -> tuple[PowerCap, ...]:
        """The GPUs (of one host) that the controller holds."""

    def set_power_cap(self, cap: PowerCap) -> None:
        """Write down that a GPU is to be held, before it is."""

    def lift_power_cap(self, gpu: str) -> None:
        """Forget the cap of a GPU that is held no more; none is no error."""

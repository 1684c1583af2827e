"""What GPU use is reported and priced from: past holdings, GPUs' time in the fleet, price books.

Amounts are exact: times are whole microseconds, shares of a board are slots of its slots, prices
decimals as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

MICROSECONDS = 1_000_000
FOREVER = 1 << 62
"""Microseconds: the end of what has none yet."""
MOST_YEARS = 20
"""Of a report: longer spans would not be summed exactly."""
ANY_MODEL = "*"
CURRENCY = "[A-Z]{3}"
PRICE = r"[0-9]{1,9}(\.[0-9]{1,9})?"
MOST_DECIMALS = 6


def microseconds(at: float) -> int:
    """Unix seconds as the whole microseconds that are nearest."""
    return round(at * MICROSECONDS)


class ReportBy(StrEnum):
    """What a report has a line for; ``PART`` is each profile of each VM."""

    TENANT = "tenant"
    VM = "vm"
    POOL = "pool"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since`` until just before ``until``, in microseconds of Unix time."""

    since: int
    until: int

    @property
    def long(self) -> int:
        """Microseconds; 0 where it ends before it begins."""
        return max(0, self.until - self.since)

    def within(self, other: Span) -> Span:
        """The part of it that is in the other one."""
        return Span(max(self.since, other.since), min(self.until, other.until))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPresence:
    """When a GPU was in the fleet; ``units`` are the slots of the whole board, ``present`` are in
    order and do not overlap.
    """

    gpu: str
    model: str
    units: int
    present: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """What was held of GPUs, as columns with an entry for each allocation. ``shape_of`` says which
    of ``shapes`` each held: slots, None for the whole GPU. ``until`` None is held still; times are
    Unix seconds.
    """

    vm_ids: Sequence[str] = ()
    vms: Sequence[str] = ()
    tenants: Sequence[str] = ()
    gpus: Sequence[str] = ()
    profiles: Sequence[str] = ()
    shapes: Sequence[tuple[int, ...] | None] = ()
    shape_of: Sequence[int] = ()
    since: Sequence[float] = ()
    until: Sequence[float | None] = ()

    def __len__(self) -> int:
        return len(self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageHistory:
    """All that a report of use is made of. ``pools`` names the pool of each VM (its id) that is, or
    was, a desktop.
    """

    held: HeldRows
    gpus: tuple[GpuPresence, ...]
    pools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class UsageKey:
    """Whose use a line is; what the report does not tell apart is empty."""

    tenant: str = ""
    pool: str = ""
    vm: str = ""
    vm_id: str = ""
    profile: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """GPU time of boards of one ``model``, in microseconds of a whole board; without a ``key`` it
    is what no VM held.
    """

    key: UsageKey | None
    model: str
    span: Span
    gpu_time: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """What an hour of a whole board costs, by its model (``*``: any other), from ``begins_at``
    (Unix seconds) on until the next one begins. Amounts are told with ``decimals`` digits.
    """

    begins_at: float
    currency: str
    gpu_hour: Mapping[str, str]
    decimals: int = 2

    def __post_init__(self) -> None:
        """ValueError for what is no currency, price or number of digits."""
        if not re.fullmatch(CURRENCY, self.currency):
            raise ValueError(f"{self.currency!r:.40} is not a currency")
        if not 0 <= self.decimals <= MOST_DECIMALS:
            raise ValueError(f"{self.decimals} is not a number of digits")
        for price in self.gpu_hour.values():
            if not re.fullmatch(PRICE, price):
                raise ValueError(f"{price!r:.40} is not a price")

    def price(self, model: str) -> Decimal | None:
        """Per hour of a whole board; None where there is none."""
        found = self.gpu_hour.get(model, self.gpu_hour.get(ANY_MODEL))
        return None if found is None else Decimal(found)


class UsageLedger(Protocol):
    """What was used of GPUs, and what it costs."""

    def usage_history(self, since: float, until: float) -> UsageHistory:
        """What was held of GPUs at any time between (Unix seconds), in any order, and when
        each GPU was in the fleet.
        """

    def price_books(self) -> tuple[PriceBook, ...]:
        """What GPUs cost, by when it begins to hold."""

    def set_price_book(self, book: PriceBook) -> None:
        """Write a price book over the one that begins at its time."""

    def remove_price_book(self, begins_at: float) -> None:
        """Forget the prices from then on, the ones before hold on; NotFound where no price
        book begins then (Unix seconds).
        """

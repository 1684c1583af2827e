"""The endpoint of the fleet's use over time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import Time

SPANS = 168
"""The number of spans that are told."""


class UseInSpan(TypedDict):
    """The slots that were held on average from ``at`` on."""

    at: Time
    units: float


class FleetUse(TypedDict):
    """Slots of all GPUs that were held, span by span; ``units`` is how many slots there are now,
    ``held`` how many of them are held.
    """

    name: str
    hours: int
    units: int
    held: int
    items: list[UseInSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRequest:
    """The last ``hours``."""

    hours: Annotated[int, ParameterLimits(ge=1, le=8784)] = 168


def show_use(context: CallContext, asked: UseRequest) -> Result[FleetUse]:
    """What allocations held of the GPUs' slots over the last hours."""
    from vgpumgr.engine.capacity.occupancy import occupancy

    ledger, end = context.app.ledger, time.time()
    begin = end - 3600.0 * asked.hours
    holdings = ledger.holdings(begin)
    held = occupancy(holdings, begin, end, SPANS)
    long = (end - begin) / SPANS
    return Result(
        answer={
            "name": "use",
            "hours": asked.hours,
            "units": sum(each.units for each in ledger.gpus()),
            "held": sum(each.units for each in holdings if each.until is None),
            "items": [{"at": begin + n * long, "units": each} for n, each in enumerate(held)],
        }
    )


SHOW_USE = Endpoint(
    name="use.show",
    method=HttpMethod.GET,
    path="/use",
    permission=Permission.FLEET_READ,
    summary="Slots of all GPUs that were held, over the last hours.",
    asks=UseRequest,
    answers=FleetUse,
    kind="FleetUse",
    work=show_use,
)

ENDPOINTS = (SHOW_USE,)

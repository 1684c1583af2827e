"""The endpoints of capacity: what still fits, and the free GPU memory that is unusable."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.plan_items import ReasonItem, reason_item
from vgpumgr.endpoints.refreshed import refresh
from vgpumgr.endpoints.shapes import ItemList, Name
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UnknownProfile
from vgpumgr.model.formats import format_mib
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationGauge, FragmentationMeasure
    from vgpumgr.model.supply import Fleet


class LastingItem(TypedDict):
    """For how many days it is enough: as likely as not, and nine times in ten; null: more than a
    year.
    """

    days_50: int | None
    days_90: int | None


class CapacityItem(TypedDict):
    """How many more VMs with one part of a profile fit, and how many parts are in use. With the
    lines ``layout`` on empty GPUs it would be ``fits_after``; 0 where no layout makes it more.
    A VM of the profile takes a licence seat of ``edition`` (empty: none), of which ``seats_left``
    are left (null: they are not declared, and not counted).
    """

    name: str
    profile: str
    frameworks: list[str]
    memory_mib: int
    fits: int
    in_use: int
    verified: bool
    lasting: LastingItem | None
    history_days: int
    fits_after: int
    layout: str
    edition: str
    seats_left: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityAsked:
    """VMs of this many ``vcpus`` and this memory, with one part of each of ``profiles`` (all
    without any). ``refresh``: the hosts are probed first; ``gauge``: messages tell fragmentation.
    """

    profiles: tuple[Name, ...] = ()
    vcpus: Annotated[int, ParameterLimits(ge=1, le=512)] = 2
    memory_mib: Annotated[int, ParameterLimits(ge=1, le=1 << 40)] = 4096
    refresh: bool = False
    gauge: bool = False


def list_capacity(context: CallContext, asked: CapacityAsked) -> Result[ItemList[CapacityItem]]:
    """That many more requests succeed, and the next is refused; what a failover reserve forbids is
    not taken off.
    """
    from vgpumgr.engine.capacity.profile_capacity import (
        DAY_S,
        MOST_DAYS,
        SeatsLeft,
        UsageGrowth,
        capacity,
    )
    from vgpumgr.engine.capacity.relayout_capacity import with_layouts
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view
    from vgpumgr.placement.fleet_room import FleetRoom

    unread = refresh(context) if asked.refresh else None
    ledger, profiles = context.app.ledger, asked.profiles
    view = read_view(ledger)
    fleet = build_fleet(view)
    shape = VmSpec(name="capacity", vcpus=asked.vcpus, memory_mib=asked.memory_mib)
    now = time.time()
    growth = UsageGrowth(fleet, ledger.holdings(now - MOST_DAYS * DAY_S), now)
    room = FleetRoom(fleet, shape)
    rooms = with_layouts(view, room, capacity(room, profiles, growth), profiles)
    unknown = set(profiles) - {each.profile for each in rooms}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise UnknownProfile(f"no GPU of the fleet can provide {names}", next="vgpumgr capacity")
    seats = SeatsLeft(view)
    items: list[Any] = [
        {"name": each.profile, **to_plain(each), **seats.of(each)} for each in rooms
    ]
    notes = _gauge_notes(context, fleet) if asked.gauge else ()
    notes = (*notes, *_reserve_notes(context), *seats.notes())
    return Result(answer={"items": items}, notes=notes, error=unread)


def _reserve_notes(context: CallContext) -> Iterator[str]:
    if context.app.config.reserve_hosts:
        yield (
            "the failover reserve is not taken off: "
            "vgpumgr simulate --fail-each --add PROFILE=N says how much of it may be used"
        )


def gauge_text(gauge: FragmentationGauge) -> str:
    """The gauge in a sentence."""
    free, lost = format_mib(gauge.free_mib), format_mib(gauge.unusable_mib)
    share = f"{gauge.share:.0%}"
    return f"fragmentation {share}: {lost} of {free} free GPU memory are unusable for {gauge.mix}"


def _gauge_notes(context: CallContext, fleet: Fleet) -> tuple[str, ...]:
    gauge = _measure(context, fleet).gauge()
    said = [f"{gauge_text(gauge)}: vgpumgr capacity --stranded"] if gauge.unusable_mib else []
    if gauge.share > context.app.config.defrag_threshold:
        said.append("moves that recover some of it: vgpumgr defrag plan")
    return tuple(said)


def _measure(context: CallContext, fleet: Fleet) -> FragmentationMeasure:
    from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure

    app = context.app
    return FragmentationMeasure(fleet, app.expected, app.ledger, time.time())


class StrandedItem(TypedDict):
    """A GPU with ``free_mib`` that no expected request can use, and the rule that fails."""

    host: str
    gpu: str
    device: str
    model: str
    free_mib: int
    reason: ReasonItem


class FragmentationItem(TypedDict):
    """The ``share`` of the free GPU memory that is unusable, between 0 and 1; ``mix`` says what it
    is measured against, ``line`` it in a sentence.
    """

    name: str
    free_mib: int
    unusable_mib: int
    share: float
    mix: str
    line: str
    stranded: list[StrandedItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentationAsked:
    """``refresh``: the hosts are probed first."""

    refresh: bool = False


def show_fragmentation(
    context: CallContext, asked: FragmentationAsked
) -> Result[FragmentationItem]:
    """The free GPU memory that is unusable, and why."""
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    unread = refresh(context) if asked.refresh else None
    measure = _measure(context, build_fleet(read_view(context.app.ledger)))
    gauge, found = measure.gauge(), measure.stranded()
    answer: Any = {
        "name": "fragmentation",
        **to_plain(gauge),
        "line": gauge_text(gauge),
        "stranded": [{**to_plain(each), "reason": reason_item(each.reason)} for each in found],
    }
    return Result(answer=answer, error=unread)


LIST_CAPACITY = Endpoint(
    name="capacity.list",
    method=HttpMethod.GET,
    path="/capacity",
    permission=Permission.FLEET_READ,
    summary="How many more VMs of each profile fit, and how long that will last.",
    asks=CapacityAsked,
    answers=ItemList[CapacityItem],
    kind="CapacityList",
    work=list_capacity,
    runs=Runs.WORKER,
    scoped=True,
)
SHOW_FRAGMENTATION = Endpoint(
    name="capacity.fragmentation",
    method=HttpMethod.GET,
    path="/fragmentation",
    permission=Permission.FLEET_READ,
    summary="Free GPU memory that is unusable, and why.",
    asks=FragmentationAsked,
    answers=FragmentationItem,
    kind="Fragmentation",
    work=show_fragmentation,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_CAPACITY, SHOW_FRAGMENTATION)

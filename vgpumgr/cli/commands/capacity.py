"""The command `capacity`: how many VMs of each profile still fit, and the fragmentation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.options import refresh_option, refreshed
from vgpumgr.cli.output import (
    Column,
    Item,
    chosen_format,
    list_options,
    print_item,
    print_list,
    say,
    table,
)
from vgpumgr.cli.views.plan_views import reason_rows
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UnknownProfile
from vgpumgr.model.formats import format_mib, parse_mib
from vgpumgr.model.vm import VmSpec

if TYPE_CHECKING:
    from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure
    from vgpumgr.engine.inventory.ledger_view import LedgerView
    from vgpumgr.model.supply import Fleet
    from vgpumgr.placement.fit_explanation import Stranded


def gauge_text(gauge: Item) -> str:
    """The gauge in a sentence."""
    free, lost = (format_mib(gauge[key]) for key in ("free_mib", "unusable_mib"))
    share, mix = f"{gauge['share']:.0%}", gauge["mix"]
    return f"fragmentation {share}: {lost} of {free} free GPU memory are unusable for {mix}"


def stranded_rows(found: Sequence[Stranded]) -> list[str]:
    """The rule per GPU; what is said of several GPUs is said once; with the memory per host."""
    free: dict[str, int] = {}
    for each in found:
        free[each.host] = free.get(each.host, 0) + each.free_mib
    lines = [f"{host}: {format_mib(mib)} unusable" for host, mib in free.items()]
    rows = [[f"  {where}", *rest] for where, *rest in reason_rows(each.reason for each in found)]
    return [*lines, *([table(rows)] if rows else [])]


def _lasts(item: Item) -> str:
    """``41 days (90 %: 29)``."""
    found = item["lasting"]
    if found is None:
        return ""
    if found["days_50"] is None:
        sure = "" if found["days_90"] is None else f" (90 %: {found['days_90']} days)"
        return f"over a year{sure}"
    return f"{found['days_50']} days (90 %: {found['days_90']})"


def _fits(item: Item) -> str:
    """``0 more; 48 with layout vfs: max``."""
    after = f"; {item['fits_after']} with layout {item['layout']}" if item["fits_after"] else ""
    return f"{item['fits']} more{after}"


COLUMNS = (
    Column("PROFILE", "name"),
    Column("FRAMEWORK", lambda item: ", ".join(item["frameworks"])),
    Column("MEMORY", lambda item: format_mib(item["memory_mib"]) if item["memory_mib"] else ""),
    Column("IN USE", "in_use"),
    Column("FITS", _fits),
    Column("LASTS", _lasts),
    Column("CATALOGUE", lambda item: "verified" if item["verified"] else "unverified", wide=True),
)


class MemoryType(click.ParamType[int]):
    """A size like ``4GiB``, in MiB."""

    name = "size"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """MiB, or a usage error that says what is accepted."""
        if isinstance(value, int):
            return value
        try:
            return parse_mib(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("profiles", nargs=-1)
@click.option("--vcpus", type=click.IntRange(1, 512), default=2, show_default=True)
@click.option("--memory", type=MemoryType(), default="4GiB", show_default=True)
@click.option(
    "--stranded", is_flag=True, help="Show stranded GPU memory, free but unusable, and why."
)
@refresh_option
@list_options
@pass_context
def capacity(
    context: Context,
    profiles: tuple[str, ...],
    vcpus: int,
    memory: int,
    stranded: bool,
    refresh: bool,
) -> None:
    """Show how many more VMs with one part of each profile fit, and how long that will last.

    That many more requests of this shape (vCPUs, memory) succeed, and the next is refused; where a
    layout of empty GPUs would make room for more, it says for how many (of boards with plain VFs
    where the profile is named). LASTS
    is a forecast from what was held day by day: as likely as not room is gone then (90 %: it
    lasts so long at least, nine times in ten); it takes 14 days of history.
    """
    from vgpumgr.engine.inventory.host_supply import build_fleet
    from vgpumgr.engine.inventory.ledger_view import read_view

    with refreshed(context, refresh):
        view = read_view(context.app.ledger)
        fleet = build_fleet(view)
        if stranded:
            _print_stranded(context, fleet)
        else:
            shape = VmSpec(name="capacity", vcpus=vcpus, memory_mib=memory)
            _print_rooms(context, view, fleet, shape, profiles)


def _print_rooms(
    context: Context, view: LedgerView, fleet: Fleet, shape: VmSpec, profiles: tuple[str, ...]
) -> None:
    from vgpumgr.engine.capacity.profile_capacity import UsageGrowth
    from vgpumgr.engine.capacity.profile_capacity import capacity as count
    from vgpumgr.engine.capacity.relayout_capacity import with_layouts
    from vgpumgr.placement.fleet_room import FleetRoom

    growth = UsageGrowth(fleet, context.app.ledger.holdings(), time.time())
    room = FleetRoom(fleet, shape)
    rooms = with_layouts(view, room, count(room, profiles, growth), profiles)
    unknown = set(profiles) - {each.profile for each in rooms}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise UnknownProfile(f"no GPU of the fleet can provide {names}", next="vgpumgr capacity")
    items = [{"name": each.profile, **to_plain(each)} for each in rooms]
    print_list("Capacity", items, COLUMNS)
    if chosen_format().name in {"table", "wide"}:
        gauge = _gauging(context, fleet).gauge()
        if gauge.unusable_mib:
            say(f"{gauge_text(to_plain(gauge))}: vgpumgr capacity --stranded")
        if gauge.share > context.config.defrag_threshold:
            say("moves that recover some of it: vgpumgr defrag plan")


def _print_stranded(context: Context, fleet: Fleet) -> None:
    gauging = _gauging(context, fleet)
    found = gauging.stranded()
    item: Item = {
        "name": "fragmentation",
        **to_plain(gauging.gauge()),
        "stranded": [to_plain(each) for each in found],
    }
    print_item("Fragmentation", item, "\n".join([*stranded_rows(found), gauge_text(item)]))


def _gauging(context: Context, fleet: Fleet) -> FragmentationMeasure:
    from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure

    return FragmentationMeasure(fleet, context.app.expected, context.app.ledger, time.time())

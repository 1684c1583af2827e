"""The command `capacity`: how many VMs of each profile still fit, and the fragmentation."""

from __future__ import annotations

from collections.abc import Sequence

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.options import refresh_option
from vgpumgr.cli.output import (
    Column,
    Item,
    chosen_format,
    list_options,
    print_item,
    print_list,
    table,
)
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.plan_views import reason_rows
from vgpumgr.endpoints.capacities import (
    LIST_CAPACITY,
    SHOW_FRAGMENTATION,
    CapacityAsked,
    FragmentationAsked,
    StrandedItem,
)
from vgpumgr.endpoints.plan_items import reasons_of
from vgpumgr.model.formats import format_mib, parse_mib


def _stranded_rows(found: Sequence[StrandedItem]) -> list[str]:
    """The rule per GPU; what is said of several GPUs is said once; with the memory per host."""
    free: dict[str, int] = {}
    for each in found:
        free[each["host"]] = free.get(each["host"], 0) + each["free_mib"]
    lines = [f"{host}: {format_mib(mib)} unusable" for host, mib in free.items()]
    reasons = reasons_of(each["reason"] for each in found)
    rows = [[f"  {where}", *rest] for where, *rest in reason_rows(reasons)]
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
    seats = " (licence seats)" if item["seats_left"] == item["fits"] else ""
    return f"{item['fits']} more{seats}{after}"


COLUMNS = (
    Column("PROFILE", "name"),
    Column("FRAMEWORK", lambda item: ", ".join(item["frameworks"])),
    Column("MEMORY", lambda item: format_mib(item["memory_mib"]) if item["memory_mib"] else ""),
    Column("IN USE", "in_use"),
    Column("FITS", _fits),
    Column("LASTS", _lasts),
    Column("LICENCE", "edition", wide=True),
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
    if stranded:
        found = context.read(SHOW_FRAGMENTATION, FragmentationAsked(refresh=refresh))
        item = found.answer
        text = "\n".join([*_stranded_rows(item["stranded"]), item["line"]])
        print_item("Fragmentation", item, text)
        finish(found)
        return
    asked = CapacityAsked(
        profiles=profiles,
        vcpus=vcpus,
        memory_mib=memory,
        refresh=refresh,
        gauge=chosen_format().name in {"table", "wide"},
    )
    rooms = context.read(LIST_CAPACITY, asked)
    print_list("Capacity", rooms.answer["items"], COLUMNS)
    finish(rooms)

"""``vgpumgr capacity``."""

from __future__ import annotations

from dataclasses import replace

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import Column, list_options, print_list
from vgpumgr.model.codec import to_plain
from vgpumgr.model.size import format_mib, parse_mib
from vgpumgr.model.vm import VmSpec

COLUMNS = (
    Column("PROFILE", "name"),
    Column("FRAMEWORK", lambda item: ", ".join(item["frameworks"])),
    Column("MEMORY", lambda item: format_mib(item["memory_mib"]) if item["memory_mib"] else ""),
    Column("IN USE", "in_use"),
    Column("FITS", lambda item: f"{item['fits']} more"),
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
@refresh_option
@list_options
@pass_context
def capacity(
    context: Context, profiles: tuple[str, ...], vcpus: int, memory: int, refresh: bool
) -> None:
    """How many more VMs with one part of each profile fit, exactly.

    That many more requests of this shape (vCPUs, memory) succeed, and the next is refused.
    """
    from vgpumgr.engine.capacity import capacity as count
    from vgpumgr.engine.supply import build_fleet
    from vgpumgr.engine.view import read_view
    from vgpumgr.model.errors import UnknownProfile

    shape = VmSpec(name="capacity", vcpus=vcpus, memory_mib=memory)
    shape = replace(shape, policy=context.config.policy)
    with refreshed(context, refresh):
        rooms = count(build_fleet(read_view(context.app.ledger)), shape, profiles)
        unknown = set(profiles) - {room.profile for room in rooms}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise UnknownProfile(f"no GPU of the fleet can make {names}", next="vgpumgr capacity")
        items = [{"name": room.profile, **to_plain(room)} for room in rooms]
        print_list("Capacity", items, COLUMNS)

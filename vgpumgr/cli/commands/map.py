"""The command `map`: the occupancy of every GPU as a bar of its slots."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.options import refresh_option
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.map_views import map_text
from vgpumgr.endpoints.fleet_map import SHOW_MAP, MapRequest


@click.command("map")
@refresh_option
@output_option
@pass_context
def map_(context: Context, refresh: bool) -> None:
    """Draw every GPU's occupancy.

    A letter per VM, # for foreign use, = for an empty GPU instance, . for free.
    """
    found = context.read(SHOW_MAP, MapRequest(refresh=refresh))
    print_item("Map", found.answer, map_text(found.answer))
    finish(found)

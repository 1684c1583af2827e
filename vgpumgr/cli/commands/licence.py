"""The commands `licence list`, `set` and `delete`: seats of the licence server."""

from __future__ import annotations

from typing import get_args

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import Column, Item, list_options, print_list, say
from vgpumgr.cli.running_command import finish
from vgpumgr.endpoints.licences import (
    DELETE_LICENCE,
    LIST_LICENCES,
    SET_LICENCE,
    EditionName,
    OneEdition,
    SetLicence,
)
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.licence import MOST_SEATS


def _or_unlimited(item: Item, key: str) -> str:
    return "not limited" if item[key] is None else str(item[key])


COLUMNS = (
    Column("EDITION", "name"),
    Column("FOR", lambda item: f"{item['series']}-series vGPUs"),
    Column("SEATS", lambda item: _or_unlimited(item, "seats")),
    Column("USED", "used"),
    Column("LEFT", lambda item: "" if item["left"] is None else str(item["left"])),
    Column("PRODUCT", "product", wide=True),
)

_edition = click.argument("edition", type=click.Choice(get_args(EditionName)))


@click.group()
def licence() -> None:
    """Licence seats of guests' vGPU drivers: list, set, delete."""


@licence.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List the editions: the seats that are declared, and the ones that VMs take."""
    found = context.read(LIST_LICENCES, Nothing())
    print_list("Licence", found.answer["items"], COLUMNS)
    finish(found)


@licence.command("set")
@_edition
@click.option("--seats", type=click.IntRange(0, MOST_SEATS), required=True, metavar="N")
@pass_context
def set_(context: Context, edition: EditionName, seats: int) -> None:
    """Declare how many seats the licence server has of an edition.

    From then on a VM for which no seat is left is refused, or waits; nothing is stopped.
    """
    found = context.act(SET_LICENCE, SetLicence(edition=edition, seats=seats))
    print_list("Licence", found.answer["items"], COLUMNS)
    finish(found)


@licence.command()
@_edition
@pass_context
def delete(context: Context, edition: EditionName) -> None:
    """Count the seats of an edition no more: its VMs are not limited."""
    context.act(DELETE_LICENCE, OneEdition(edition=edition))
    say(f"seats of {edition} are not counted any longer")

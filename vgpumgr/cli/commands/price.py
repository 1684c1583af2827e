"""The commands `price list`, `apply` and `remove`: what an hour of a GPU costs."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, Item, list_options, print_list, say
from vgpumgr.cli.user_files import document_text, file_option
from vgpumgr.endpoints.prices import APPLY_PRICES, LIST_PRICES, REMOVE_PRICES, OnePriceBook
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.json_times import time_text


def _prices(item: Item) -> str:
    """``A40 2.40, * 1.00``."""
    return ", ".join(f"{each['model']} {each['gpu_hour']}" for each in item["prices"])


COLUMNS = (
    Column("FROM", "name"),
    Column("UNTIL", lambda item: "" if item["until"] is None else time_text(item["until"])),
    Column("CURRENCY", "currency"),
    Column("PRICES", _prices),
    Column("DECIMALS", "decimals", wide=True),
)


@click.group()
def price() -> None:
    """What an hour of a GPU costs: list, apply, remove."""


@price.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List the price books: each holds until the next one begins."""
    print_list("PriceBook", context.read(LIST_PRICES, Nothing()).answer["items"], COLUMNS)


@price.command()
@file_option
@list_options
@pass_context
def apply(context: Context, file: str) -> None:
    """Write the price books of a file, each over the one that begins at its time.

    Reports of times gone by are changed with them; the audit trail keeps every price that was set.
    """
    found = context.act(APPLY_PRICES, document_text(file))
    print_list("PriceBook", found.answer["items"], COLUMNS)


@price.command()
@click.argument("begins", shell_complete=completed("prices"))
@pass_context
def remove(context: Context, begins: str) -> None:
    """Remove the price book that begins at that time; the one before it holds on."""
    found = context.act(REMOVE_PRICES, OnePriceBook(begins_at=begins))
    say(f"the price book from {found.answer['name']} is removed")

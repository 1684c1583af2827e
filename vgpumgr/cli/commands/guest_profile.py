"""The commands `guest-profile list` and `show`; files of VMs and pools choose them."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
)
from vgpumgr.endpoints.guest_profiles import (
    LIST_GUEST_PROFILES,
    SHOW_GUEST_PROFILE,
    GuestParameterItem,
    GuestProfileItem,
    OneGuestProfile,
)
from vgpumgr.endpoints.shapes import Nothing

COLUMNS = (
    Column("NAME", "name"),
    Column("SYSTEMS", lambda item: ", ".join(item["systems"])),
    Column(
        "TAKES",
        lambda item: (
            ", ".join(each["name"] for each in item["parameters"] if each["required"]) or "-"
        ),
    ),
    Column("TITLE", "title"),
    Column("CHECKS", lambda item: ", ".join(each["name"] for each in item["checks"]), wide=True),
)


@click.group("guest-profile")
def guest_profile() -> None:
    """Guest profiles: software for guests, with checks; files of VMs and pools choose them."""


@guest_profile.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List guest profiles, and the parameters that each must have."""
    items = context.read(LIST_GUEST_PROFILES, Nothing()).answer["items"]
    print_list("GuestProfile", items, COLUMNS)


@guest_profile.command()
@click.argument("name", shell_complete=completed("guest-profiles"))
@output_option
@pass_context
def show(context: Context, name: str) -> None:
    """Show a guest profile: its parameters, packages and checks."""
    item = context.read(SHOW_GUEST_PROFILE, OneGuestProfile(name=name)).answer
    print_item("GuestProfile", item, _text(item))


def _text(item: GuestProfileItem) -> str:
    return fields(
        [
            ("Name", item["name"]),
            ("Title", item["title"]),
            ("Systems", ", ".join(item["systems"])),
            ("Needs", ", ".join(item["needs"])),
            ("Packages", ", ".join(item["packages"])),
            *(("Parameter", _parameter(each)) for each in item["parameters"]),
            *(("Check", f"{each['name']}: {' '.join(each['run'])}") for each in item["checks"]),
        ]
    )


def _parameter(item: GuestParameterItem) -> str:
    """``branch: the driver's branch (required)``."""
    said = [
        "required" if item["required"] and not item["default"] else "",
        "the name of a secret" if item["secret"] else "",
        f"default {item['default']}" if item["default"] else "",
        f"one of {', '.join(item['choices'])}" if item["choices"] else "",
    ]
    more = "; ".join(filter(None, said))
    return f"{item['name']}: {item['text']}{f' ({more})' if more else ''}"

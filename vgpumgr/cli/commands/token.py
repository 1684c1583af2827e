"""The commands `token list`, `create` and `revoke`: API tokens for programs."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import span
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list, say
from vgpumgr.cli.views.ages import age, until
from vgpumgr.model.codec import to_plain
from vgpumgr.model.credential import ApiToken
from vgpumgr.model.role_binding import EVERY_TENANT, Role

COLUMNS = (
    Column("ID", lambda item: item["id"][:8]),
    Column("NAME", "name"),
    Column("OWNER", "owner"),
    Column("ROLE", "role"),
    Column("TENANT", "tenant"),
    Column("EXPIRES", lambda item: until(item["expires_at"])),
    Column("USED", lambda item: age(item["last_used_at"])),
)


@click.group()
def token() -> None:
    """API tokens: list, create, revoke."""


@token.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List tokens that were not revoked; EXPIRES now: it is not taken any more."""
    access = context.app.shown_access
    found = access.administration.list_tokens(access.at_shell())
    print_list("Token", [_item(each) for each in found], COLUMNS)


def _item(token: ApiToken) -> dict[str, Any]:
    item: dict[str, Any] = to_plain(token)
    del item["revoked_at"]
    return item


@token.command()
@click.argument("name")
@click.option(
    "--role",
    required=True,
    type=click.Choice([each.value for each in Role]),
    help="It can do what this role gives, as far as you can.",
)
@click.option(
    "--tenant",
    default=EVERY_TENANT,
    metavar="TENANT",
    show_default=True,
    help="Only in this tenant; * for all that you reach.",
    shell_complete=completed("tenants"),
)
@click.option(
    "--expires",
    "lifetime_s",
    default="30d",
    show_default=True,
    callback=span,
    metavar="TIME",
    help="How long it is taken, a year at most: 12h, 30d.",
)
@output_option
@pass_context
def create(context: Context, name: str, role: str, tenant: str, lifetime_s: float) -> None:
    """Create a token of your own and print its secret, once: it cannot be read later."""
    access = context.app.access
    made, secret = access.administration.create_token(
        access.at_shell(), name=name, role=Role(role), tenant=tenant, lifetime_s=lifetime_s
    )
    print_item("Token", {**_item(made), "secret": secret}, secret)
    say(f"keep it safe; vgpumgr token revoke {name} ends it")


@token.command()
@click.argument("tokens", nargs=-1, required=True, shell_complete=completed("tokens"))
@pass_context
def revoke(context: Context, tokens: tuple[str, ...]) -> None:
    """Revoke TOKENS at once, by their ids, or your own by their names."""
    access = context.app.access
    for each in tokens:
        gone = access.administration.revoke_token(access.at_shell(), each)
        say(f"token {gone.name} of {gone.owner} is revoked")

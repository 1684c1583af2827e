"""The commands `token list`, `create` and `revoke`: API tokens for programs."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import span
from vgpumgr.cli.output import Column, list_options, output_option, print_item, print_list
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.ages import age, until
from vgpumgr.endpoints import access
from vgpumgr.model.errors import UsageError
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
    found = context.read(access.LIST_TOKENS, access.NoParameters())
    print_list("Token", found.answer["items"], COLUMNS)


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
    if not 0 < lifetime_s <= access.YEAR_S:
        raise UsageError("a token lives for a year at most", next="--expires 30d")
    asked = access.TokenRequest(name=name, role=role, tenant=tenant, lifetime_s=lifetime_s)
    made = context.read(access.CREATE_TOKEN, asked)
    print_item("Token", made.answer, made.answer["secret"])
    finish(made)


@token.command()
@click.argument("tokens", nargs=-1, required=True, shell_complete=completed("tokens"))
@pass_context
def revoke(context: Context, tokens: tuple[str, ...]) -> None:
    """Revoke TOKENS at once, by their ids, or your own by their names."""
    finish(context.read(access.REVOKE_TOKENS, access.Revoked(names=tokens)))

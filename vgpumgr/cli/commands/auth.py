"""The commands `auth roles`, `whoami` and `session`: what roles give, who you are, logins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.commands.login import typed_password
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.ages import age, until
from vgpumgr.endpoints import access
from vgpumgr.model.errors import UsageError
from vgpumgr.model.role_binding import Role

if TYPE_CHECKING:
    from vgpumgr.access.principal import Principal
    from vgpumgr.app.access_control import AccessControl

SESSION_COLUMNS = (
    Column("ID", lambda item: item["id"][:8]),
    Column("USER", "user"),
    Column("METHOD", "method"),
    Column("FROM", "address"),
    Column("SINCE", lambda item: age(item["created_at"])),
    Column("SEEN", lambda item: age(item["seen_at"])),
    Column("EXPIRES", lambda item: until(item["expires_at"])),
    Column("GROUPS", "groups", wide=True),
)


@click.group()
def auth() -> None:
    """Access: roles, whoami, test, session."""


@auth.command()
@list_options
def roles() -> None:
    """List what each role gives, a line per permission.

    FLEET: only where the role is held in all tenants.
    """
    from vgpumgr.access.permission import FLEET_WIDE, Permission
    from vgpumgr.access.roles import PERMISSIONS

    items = [
        {
            "name": permission.value,
            "fleet_wide": permission in FLEET_WIDE,
            "roles": [role.value for role in Role if permission in PERMISSIONS[role]],
        }
        for permission in Permission
    ]
    columns = (
        Column("PERMISSION", "name"),
        Column("FLEET", lambda item: "fleet" if item["fleet_wide"] else ""),
        *(Column(role.upper(), _holds(role)) for role in Role),
    )
    print_list("Permission", items, columns)


def _holds(role: Role) -> Callable[[Mapping[str, Any]], str]:
    return lambda item: "yes" if role.value in item["roles"] else ""


@auth.command()
@output_option
@pass_context
def whoami(context: Context) -> None:
    """Show who you are to vgpumgr, what bindings may call you, and what you may do where."""
    _print_who(context.read(access.SHOW_PRINCIPAL, access.NoParameters()).answer)


@auth.command()
@click.option(
    "--user",
    default="",
    metavar="NAME",
    help="Log in at the directory (LDAP) of the settings, with this user's password.",
)
@output_option
@pass_context
def test(context: Context, user: str) -> None:
    """Log in at the identity provider of the settings, and show who you would be.

    A refusal says which claim is missing, and which claims came. With --user at the directory, by a
    password.
    """
    control = context.app.shown_access
    principal = _of_directory(control, user) if user else _of_provider(control)
    _print_who(access.principal_item(control.of_principal(principal)))


def _of_directory(control: AccessControl, user: str) -> Principal:
    if control.directory is None:
        raise UsageError("no directory is set", next="auth: {ldap: {url: ldaps://…, …}}")
    return control.directory.log_in(user, typed_password(user))


def _of_provider(control: AccessControl) -> Principal:
    import time

    if control.oidc is None:
        raise UsageError(
            "no identity provider is set", next="auth: {oidc: {issuer: …, client_id: …}}"
        )
    device = control.oidc.begin_device()
    say(f"open {device.complete_uri}")
    say(f"and check that it shows {device.user_code}")
    while (principal := control.oidc.poll(device)) is None:
        time.sleep(device.interval_s)
    return principal


def _print_who(item: access.PrincipalItem) -> None:
    places: dict[str, list[str]] = {}
    for name, scope in item["permissions"].items():
        where = scope if isinstance(scope, str) else ", ".join(scope) or "no tenant"
        places.setdefault(where, []).append(name)
    text = fields(
        [
            ("User", item["name"]),
            ("Known as", ", ".join(item["subjects"])),
            ("Roles", ", ".join(item["roles"]) or "none"),
            *((f"May in {where}", ", ".join(names)) for where, names in places.items()),
        ]
    )
    print_item("Principal", item, text)


@auth.group()
def session() -> None:
    """Login sessions: list, end."""


@session.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List login sessions, newest first: your own, or everybody's for who may see all access."""
    found = context.read(access.LIST_LOGINS, access.NoParameters())
    print_list("LoginSession", found.answer["items"], SESSION_COLUMNS)


@session.command()
@click.argument("sessions", nargs=-1, required=True, shell_complete=completed("login sessions"))
@pass_context
def end(context: Context, sessions: tuple[str, ...]) -> None:
    """End login sessions at once, by their ids."""
    finish(context.read(access.END_LOGINS, access.Revoked(names=sessions)))

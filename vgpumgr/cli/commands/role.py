"""The commands `role list`, `grant` and `revoke`: who holds which role in which tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, print_list
from vgpumgr.cli.running_command import finish
from vgpumgr.endpoints import access
from vgpumgr.model.role_binding import EVERY_TENANT, Role

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS = (
    Column("SUBJECT", "subject"),
    Column("ROLE", "role"),
    Column("TENANT", "tenant"),
    Column("BY", "created_by", wide=True),
)


@click.group()
def role() -> None:
    """Who holds which role in which tenant: list, grant, revoke."""


@role.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List who holds which role; TENANT * is all tenants. `auth roles` lists what roles give."""
    found = context.read(access.LIST_BINDINGS, access.NoParameters())
    print_list("RoleBinding", found.answer["items"], COLUMNS)


def _binding_options(command: F) -> F:
    for add in (
        click.option(
            "--tenant",
            default=EVERY_TENANT,
            metavar="TENANT",
            show_default=True,
            help="In this tenant; * for all, and for what belongs to none.",
            shell_complete=completed("tenants"),
        ),
        click.argument("role", type=click.Choice([each.value for each in Role])),
        click.argument("subject", shell_complete=completed("subjects")),
    ):
        command = add(command)
    return command


@role.command()
@_binding_options
@pass_context
def grant(context: Context, subject: str, role: str, tenant: str) -> None:
    """Grant a role to SUBJECT: user:NAME or group:NAME as a login names them, local:NAME,
    local-group:NAME or uid:N of this machine.
    """
    asked = access.Binding(subject=subject, role=role, tenant=tenant)
    finish(context.read(access.GRANT_ROLE, asked))


@role.command()
@_binding_options
@pass_context
def revoke(context: Context, subject: str, role: str, tenant: str) -> None:
    """Revoke a role of SUBJECT; it holds from the next request on, for tokens too."""
    asked = access.Binding(subject=subject, role=role, tenant=tenant)
    finish(context.read(access.REVOKE_ROLE, asked))

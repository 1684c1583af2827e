"""The commands `role list`, `grant` and `revoke`: who holds which role in which tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, print_list, say
from vgpumgr.model.codec import to_plain
from vgpumgr.model.role_binding import EVERY_TENANT, Role, RoleBinding

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
    access = context.app.shown_access
    found = access.administration.bindings(access.at_shell())
    items = [{"name": each.subject, **to_plain(each)} for each in found]
    print_list("RoleBinding", items, COLUMNS)


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
    access, binding = context.app.access, _binding(subject, role, tenant)
    new = access.administration.grant(access.at_shell(), binding)
    say(f"{subject} {'has' if new else 'had'} {role} in {_tenant_text(tenant)}")


@role.command()
@_binding_options
@pass_context
def revoke(context: Context, subject: str, role: str, tenant: str) -> None:
    """Revoke a role of SUBJECT; it holds from the next request on, for tokens too."""
    access = context.app.access
    access.administration.revoke(access.at_shell(), _binding(subject, role, tenant))
    say(f"{subject} no longer has {role} in {_tenant_text(tenant)}")


def _binding(subject: str, role: str, tenant: str) -> RoleBinding:
    return RoleBinding(subject=subject, role=Role(role), tenant=tenant)


def _tenant_text(tenant: str) -> str:
    return "all tenants" if tenant == EVERY_TENANT else f"tenant {tenant}"

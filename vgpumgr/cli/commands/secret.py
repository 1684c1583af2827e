"""The commands `secret set`, `list`, `show` and `remove`: values that nothing prints."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

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
    say,
)
from vgpumgr.cli.terminal import at_a_terminal, typed
from vgpumgr.cli.views.ages import age
from vgpumgr.endpoints import secrets
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.errors import UsageError
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import MAX_SECRET_BYTES

COLUMNS = (
    Column("NAME", "name"),
    Column("TENANT", "tenant"),
    Column("STATE", "state"),
    Column("SET", lambda item: age(item["set_at"]) if item["set_at"] is not None else ""),
    Column("BY", "set_by"),
    Column("USED BY", "users"),
    Column("SOURCE", "source", wide=True),
    Column("WHY", "why", wide=True),
)
_tenant = click.option(
    "--tenant",
    default=EVERY_TENANT,
    metavar="TENANT",
    show_default=True,
    help="The tenant that it belongs to; * is the fleet itself.",
    shell_complete=completed("tenants"),
)
_name = click.argument("name", shell_complete=completed("secrets"))


@click.group()
def secret() -> None:
    """Secrets: set, list, show, remove."""


@secret.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List secrets without their values.

    STATE: `changed` is another value than was set, `unrecorded` one that was not set by vgpumgr.
    """
    print_list("Secret", context.read(secrets.LIST_SECRETS, Nothing()).answer["items"], COLUMNS)


@secret.command()
@_name
@_tenant
@output_option
@pass_context
def show(context: Context, name: str, tenant: str) -> None:
    """Show what is known of a secret and what uses it; never its value."""
    asked = secrets.OneSecret(tenant=tenant, name=name)
    _print(context.read(secrets.SHOW_SECRET, asked).answer)


def _print(item: secrets.SecretItem) -> None:
    set_ = f"{age(item['set_at'])} ago by {item['set_by']}" if item["set_at"] is not None else "—"
    state = f"{item['state']}: {item['why']}" if item["why"] else item["state"]
    whose = "the fleet" if item["tenant"] == EVERY_TENANT else f"tenant {item['tenant']}"
    text = fields(
        [
            ("Secret", f"{item['name']} of {whose}"),
            ("State", state),
            ("Kept in", item["source"] or "—"),
            ("Set", set_),
            ("Used by", ", ".join(item["users"]) or "nothing"),
        ]
    )
    print_item("Secret", item, text)


@secret.command("set")
@_name
@_tenant
@click.option("--file", "file", metavar="PATH", help="File with the value, byte for byte.")
@output_option
@pass_context
def set_(context: Context, name: str, tenant: str, file: str | None) -> None:
    """Set a secret: its value is read from standard input, or asked for without showing it.

    \b
    vgpumgr secret set bmc-2                        asks for it
    pass show bmc/2 | vgpumgr secret set bmc-2      without the newline at its end
    vgpumgr secret set ca-key --file ca.pem
    """
    value = _from_file(file) if file is not None else _from_input(name)
    try:
        text, encoding = value.decode(), "text"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(value).decode(), "base64"
    asked = secrets.NewSecret(
        tenant=tenant,
        name=name,
        value=text,
        encoding="text" if encoding == "text" else "base64",
    )
    _print(context.act(secrets.SET_SECRET, asked).answer)


def _from_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return _bounded(file.read(MAX_SECRET_BYTES + 1))
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error)) from error


def _from_input(name: str) -> bytes:
    if at_a_terminal():
        told = typed(f"Value of {name}", hidden=True)
        if typed(f"Value of {name} again", hidden=True) != told:
            raise UsageError("these are two values", next=f"vgpumgr secret set {name}")
        return _bounded(told.encode())
    value = sys.stdin.buffer.read(MAX_SECRET_BYTES + 2)
    return _bounded(value.removesuffix(b"\n").removesuffix(b"\r"))


def _bounded(value: bytes) -> bytes:
    if not value:
        raise UsageError("the secret is empty", next="vgpumgr secret set NAME < FILE")
    if len(value) > MAX_SECRET_BYTES:
        raise UsageError(f"the secret has more than {MAX_SECRET_BYTES >> 10} KiB")
    return value


@secret.command()
@_name
@_tenant
@click.option("--force", is_flag=True, help="Even where something uses it.")
@pass_context
def remove(context: Context, name: str, tenant: str, force: bool) -> None:
    """Remove a secret and its value. Refused where something uses it."""
    asked = secrets.SecretRemoval(tenant=tenant, name=name, force=force)
    context.act(secrets.REMOVE_SECRET, asked)
    say(f"the secret {name} is removed")

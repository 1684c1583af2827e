"""The command `audit list`: the trail of changes. The commands of its seal are in `audit_seal`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.audit_seal import checkpoint, export, seal, verify
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import limit_option, since_option
from vgpumgr.cli.output import Column, list_options, print_list
from vgpumgr.endpoints.audit_trail import LIST_AUDIT, AuditFilter


def _time(at: float) -> str:
    """Local time, to the second."""
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="seconds")


def _generations(item: Mapping[str, Any]) -> str:
    before, after = item["before"], item["after"]
    if before == after:
        return "" if after is None else str(after)
    return f"{'-' if before is None else before} → {'-' if after is None else after}"


def _consumption(taken: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in taken.items())


COLUMNS = (
    Column("TIME", lambda item: _time(item["at"])),
    Column("BY", "by"),
    Column("EVENT", "event"),
    Column("VM", "vm"),
    Column("HOST", "host"),
    Column("OPERATION", lambda item: item["operation"][:8]),
    Column("DETAIL", "detail"),
    Column("GPU", "gpu", wide=True),
    Column("PROFILE", "profile", wide=True),
    Column("DEVICE", "device", wide=True),
    Column("UNITS", "units", wide=True),
    Column("GENERATION", _generations, wide=True),
    Column("ALLOCATION", lambda item: item["allocation"][:8], wide=True),
    Column("SEQ", "seq", wide=True),
    Column("ASKED BY", "asked_by", wide=True),
    Column("TENANT", "tenant", wide=True),
    Column("METHOD", "method", wide=True),
    Column("ADDRESS", "address", wide=True),
    Column("CREDENTIAL", "credential", wide=True),
    Column("CONSUMPTION", lambda item: _consumption(item["consumption"]), wide=True),
)


@click.group(commands=[checkpoint, export, seal, verify])
def audit() -> None:
    """Audit trail of every change: who, what, when, by which operation."""


@audit.command("list")
@click.option(
    "--vm",
    default="",
    metavar="VM",
    help="Only events of this VM.",
    shell_complete=completed("vms"),
)
@click.option(
    "--host",
    default="",
    metavar="HOST",
    help="Only events on this host.",
    shell_complete=completed("hosts"),
)
@click.option(
    "--operation",
    default="",
    metavar="ID",
    help="Only events of this operation; a unique prefix is enough.",
)
@click.option(
    "--event", default="", metavar="EVENT", help="Only this kind of event: vm, allocation.released."
)
@click.option(
    "--by", default="", metavar="WHO", help="Only events by this user; a prefix of BY is enough."
)
@click.option(
    "--user",
    default="",
    metavar="WHO",
    help="Only what this user did or asked for; a prefix is enough.",
)
@click.option("--tenant", default="", metavar="TENANT", help="Only what was done for this tenant.")
@since_option
@limit_option
@list_options
@pass_context
def list_(
    context: Context,
    vm: str,
    host: str,
    operation: str,
    event: str,
    by: str,
    user: str,
    tenant: str,
    since: float | None,
    limit: int,
) -> None:
    """List the trail, newest first."""
    asked = AuditFilter(
        vm=vm,
        host=host,
        operation=operation,
        event=event,
        by=by,
        user=user,
        tenant=tenant,
        since=since,
        limit=limit,
    )
    found = context.read(LIST_AUDIT, asked).answer
    print_list("Audit", found["items"], COLUMNS, more=found["more"])

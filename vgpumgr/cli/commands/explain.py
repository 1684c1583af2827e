"""The command `explain`: where a request fits, or why it fits nowhere."""

from __future__ import annotations

import difflib
import shlex
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item, table
from vgpumgr.cli.user_files import load_vms, source_name
from vgpumgr.cli.views.plan_views import reason_items, reason_rows
from vgpumgr.model.errors import NoPlacement, NotFound, UsageError
from vgpumgr.model.placement import FITS, Explanation

_SHOWN = 3


def explanation_item(found: Explanation) -> dict[str, Any]:
    """The JSON of an explanation."""
    return {
        "vm": found.vm,
        "host": found.host,
        "line": found.line,
        "standing": found.standing,
        "reasons": reason_items(found.reasons),
        "changes": [
            {
                "kind": each.kind,
                "text": each.text,
                "host": each.host,
                "words": each.words,
                "next": each.next,
            }
            for each in found.changes
        ],
    }


def explanation_text(found: Explanation) -> str:
    """One line, then the first rule that failed per GPU, then the cheapest changes."""
    verdict = (
        f"fits: would go to {found.host}{_last_choice(found)}" if found.host else "fits nowhere"
    )
    head = f"{found.vm} {found.standing}" if found.standing else f"{found.vm}: {verdict}"
    rows = [[f"  {where}", *rest] for where, *rest in reason_rows(found.reasons)]
    return "\n".join([head, *([table(rows)] if rows else []), *_help(found)])


def _last_choice(found: Explanation) -> str:
    """What is said of a host all of whose GPUs are in back-off, which a plan chooses last."""
    of_host = [each.code for each in found.reasons if each.host == found.host]
    return "" if FITS in of_host or not of_host else ", the last choice: see below"


def _help(found: Explanation) -> list[str]:
    if found.host or (any(each.code == FITS for each in found.reasons) and not found.changes):
        return []
    if not found.changes:
        return ["  none of the single changes that were tried makes it fit"]
    first, *others = found.changes
    lines = [f"  it fits {first.words}", *(f"    {line}" for line in first.next.splitlines())]
    return [*lines, *(f"  or {each.words}" for each in others[: _SHOWN - 1])]


@click.command()
@click.argument("name", required=False, shell_complete=completed("queue"))
@click.option("-f", "--file", "file", metavar="FILE", help="YAML file; - reads standard input.")
@click.option("--vm", "only", help="Only this VM of the file.")
@refresh_option
@output_option
@pass_context
def explain(
    context: Context, name: str | None, file: str | None, only: str | None, refresh: bool
) -> None:
    """Show where a request would go, or the rule each GPU fails, and what would help.

    With -f the file as a whole is decided as `plan` and `apply` would, quotas and bookings
    included, by the last observation. With a NAME: why that VM waits in the queue, or how its last
    request was decided. Suggested changes were tried. Exit 5 when a VM has no place now.
    """
    if (name is None) == (file is None):
        raise UsageError("name a VM, or a file", next="vgpumgr explain NAME, or explain -f FILE")
    if name is not None:
        _show((context.app.engine.explain_one(name),))
        return
    with refreshed(context, refresh):
        _show(_now(context, file or "", only))


def _now(context: Context, file: str, only: str | None) -> tuple[Explanation, ...]:
    specs = load_vms(context, file)
    if only and only not in {spec.name for spec in specs}:
        near = difflib.get_close_matches(only, [spec.name for spec in specs], 1) or [specs[0].name]
        raise NotFound(
            f"{source_name(file)} names no VM {only}",
            next=f"vgpumgr explain -f {shlex.quote(file)} --vm {near[0]}",
        )
    return context.app.engine.explain(specs, {only} if only else ())


def _show(found: tuple[Explanation, ...]) -> None:
    items = [explanation_item(each) for each in found]
    text = "\n".join(map(explanation_text, found))
    print_item("Explanation", {"name": "explain", "items": items}, text)
    if any(each.host is None for each in found):
        raise click.exceptions.Exit(NoPlacement.exit_status)

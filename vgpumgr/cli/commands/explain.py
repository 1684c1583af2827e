"""The command `explain`: where a request fits, or why it fits nowhere."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.options import refresh_option
from vgpumgr.cli.output import output_option, print_item, table
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.user_files import document_text
from vgpumgr.cli.views.plan_views import reason_rows
from vgpumgr.endpoints.explanations import (
    EXPLAIN_DOCUMENTS,
    EXPLAIN_VM,
    ExplainDocuments,
    ExplainVm,
)
from vgpumgr.endpoints.plan_items import ExplanationItem, reasons_of
from vgpumgr.model.errors import NoPlacement, UsageError
from vgpumgr.model.placement import FITS

_SHOWN = 3


def explanation_text(found: ExplanationItem) -> str:
    """One line, then the first rule that failed per GPU, then the cheapest changes."""
    host, standing = found["host"], found["standing"]
    verdict = f"fits: would go to {host}{_last_choice(found)}" if host else "fits nowhere"
    head = f"{found['vm']} {standing}" if standing else f"{found['vm']}: {verdict}"
    rows = [[f"  {where}", *rest] for where, *rest in reason_rows(reasons_of(found["reasons"]))]
    return "\n".join([head, *([table(rows)] if rows else []), *_help(found)])


def _last_choice(found: ExplanationItem) -> str:
    """What is said of a host all of whose GPUs are in back-off, which a plan chooses last."""
    of_host = [each["code"] for each in found["reasons"] if each["host"] == found["host"]]
    return "" if FITS in of_host or not of_host else ", the last choice: see below"


def _help(found: ExplanationItem) -> list[str]:
    changes = found["changes"]
    fits = any(each["code"] == FITS for each in found["reasons"])
    if found["host"] or (fits and not changes):
        return []
    if not changes:
        return ["  none of the single changes that were tried makes it fit"]
    first, *others = changes
    lines = [f"  it fits {first['words']}", *(f"    {line}" for line in first["next"].splitlines())]
    return [*lines, *(f"  or {each['words']}" for each in others[: _SHOWN - 1])]


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
        found = context.read(EXPLAIN_VM, ExplainVm(name=name))
    else:
        text = document_text(file or "")
        asked = ExplainDocuments(
            text=text.text, source=text.source, only=only or "", refresh=refresh
        )
        found = context.read(EXPLAIN_DOCUMENTS, asked)
    items = found.answer["items"]
    print_item("Explanation", found.answer, "\n".join(map(explanation_text, items)))
    if any(each["host"] is None for each in items):
        raise click.exceptions.Exit(NoPlacement.exit_status)
    finish(found)

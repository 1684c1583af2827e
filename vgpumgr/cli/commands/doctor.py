"""The command `doctor`: checks of this machine, the ledger and the hosts."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import output_option
from vgpumgr.cli.running_command import finish
from vgpumgr.cli.views.reports import print_findings
from vgpumgr.endpoints.diagnoses import DIAGNOSE, DiagnosisRequest


@click.command()
@click.argument("host", required=False, shell_complete=completed("hosts"))
@output_option
@pass_context
def doctor(context: Context, host: str | None) -> None:
    """Check this machine, the ledger, unfinished operations and every host; or one HOST closely.

    Exit 7 when something needs attention, 6 when HOST cannot be reached; every finding names the
    command that helps.
    """
    found = context.read(DIAGNOSE, DiagnosisRequest(host=host or None))
    print_findings(found.answer["name"], found.answer["items"])
    finish(found)

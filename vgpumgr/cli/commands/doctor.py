"""The command `doctor`: checks of this machine, the ledger and the hosts."""

from __future__ import annotations

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import output_option
from vgpumgr.cli.views.reports import print_findings, summary
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.examination import CheckOutcome


@click.command()
@click.argument("host", required=False, shell_complete=completed("hosts"))
@output_option
@pass_context
def doctor(context: Context, host: str | None) -> None:
    """Check this machine, the ledger, unfinished operations and every host; or one HOST closely.

    Exit 7 when something needs attention, 6 when HOST cannot be reached; every finding names the
    command that helps.
    """
    if host is None:
        _everything(context)
    else:
        _one(context, host)


def _everything(context: Context) -> None:
    from vgpumgr.app.diagnosis import examine

    findings = examine(context.app)
    print_findings("doctor", findings)
    wrong = [each for each in findings if not each.ok]
    if wrong:
        raise PartlyDone(f"{len(wrong)} of {len(findings)} checks need attention")


def _one(context: Context, host: str) -> None:
    from vgpumgr.app.diagnosis import examine_host

    findings = examine_host(context.app, host)
    print_findings(host, findings)
    if any(each.mark is CheckOutcome.BAD for each in findings):
        raise PartlyDone(f"{host} needs attention: {summary(findings)}")

"""``vgpumgr doctor``."""

from __future__ import annotations

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.model.errors import PartlyDone


@click.command()
@output_option
@pass_context
def doctor(context: Context) -> None:
    """Check this machine, the ledger, unfinished operations and every host.

    Exit 7 when something needs attention; every finding names the command that helps.
    """
    from vgpumgr.app.diagnosis import examine

    findings = examine(context.app)
    items = [
        {"check": each.check, "ok": each.ok, "text": each.text, "next": each.next}
        for each in findings
    ]
    lines = [
        f"{'ok  ' if each.ok else 'BAD '} {each.check:<18} {each.text}"
        + (f"\n{'':24}next: {each.next}" if each.next else "")
        for each in findings
    ]
    print_item("Diagnosis", {"name": "doctor", "items": items}, "\n".join(lines))
    bad = [each for each in findings if not each.ok]
    if bad:
        raise PartlyDone(f"{len(bad)} of {len(findings)} checks need attention")

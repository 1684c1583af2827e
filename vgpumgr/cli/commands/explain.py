"""``vgpumgr explain``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.files import load_vms
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.views.explanations import explanation_item, explanation_text
from vgpumgr.model.errors import NoPlacement, NotFound, UsageError

if TYPE_CHECKING:
    from vgpumgr.model.explanation import Explanation


@click.command()
@click.argument("name", required=False)
@click.option("-f", "--file", "file", metavar="FILE", help="YAML file; - reads standard input.")
@click.option("--vm", "only", help="Only this VM of the file.")
@refresh_option
@output_option
@pass_context
def explain(
    context: Context, name: str | None, file: str | None, only: str | None, refresh: bool
) -> None:
    """Where a request would go, or for every GPU the rule that forbids it, and what would help.

    With -f each VM of the file is looked at by itself, also those that exist already. With a NAME
    what was said when a VM of that name was asked for last. What would help was tried. Exit 5
    when one fits nowhere.
    """
    if (name is None) == (file is None):
        raise UsageError("name a VM, or a file", next="vgpumgr explain NAME, or explain -f FILE")
    if name is not None:
        _show(_past(context, name))
        return
    with refreshed(context, refresh):
        _show(_now(context, file or "", only))


def _now(context: Context, file: str, only: str | None) -> tuple[Explanation, ...]:
    from vgpumgr.engine.booking import placing_beside
    from vgpumgr.engine.headroom.explain import explain as explained
    from vgpumgr.engine.outlook import placing
    from vgpumgr.engine.view import read_view

    specs = [spec for spec in load_vms(context, file) if only in {None, spec.name}]
    if not specs:
        raise NotFound(f"{file} names no VM {only}")
    app = context.app
    now = time.time()
    place = placing(context.config.policy, app.expected, app.ledger, now)
    return explained(read_view(app.ledger), specs, placing_beside(place, app.ledger, now))


def _past(context: Context, name: str) -> tuple[Explanation, ...]:
    from vgpumgr.engine.headroom.explain import said

    return (said(context.app.ledger, name),)


def _show(found: tuple[Explanation, ...]) -> None:
    items = [explanation_item(each) for each in found]
    text = "\n".join(explanation_text(item) for item in items)
    print_item("Explanation", {"name": "explain", "items": items}, text)
    if any(each.host is None for each in found):
        raise click.exceptions.Exit(NoPlacement.exit_status)

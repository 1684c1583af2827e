"""``vgpumgr explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.files import file_option, load_vms
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item, table
from vgpumgr.cli.views.plans import reason_item, reason_rows
from vgpumgr.model.errors import NoPlacement, NotFound

if TYPE_CHECKING:
    from vgpumgr.engine.explain import Explanation


@click.command()
@file_option
@click.option("--vm", "name", help="Only this VM of the file.")
@refresh_option
@output_option
@pass_context
def explain(context: Context, file: str, name: str | None, refresh: bool) -> None:
    """For each VM of a file: where it would go, or for every GPU the rule that forbids it.

    VMs that exist already are explained as if they were asked for once more. Exit 5 when one
    fits nowhere.
    """
    from vgpumgr.engine.explain import explain as explained
    from vgpumgr.engine.view import read_view

    specs = [spec for spec in load_vms(context, file) if name in {None, spec.name}]
    if not specs:
        raise NotFound(f"{file} names no VM {name}")
    with refreshed(context, refresh):
        found = explained(read_view(context.app.ledger), specs, context.config.policy)
        items = [_item(each) for each in found]
        text = "\n".join(_text(item) for item in items)
        print_item("Explanation", {"name": "explain", "items": items}, text)
        if any(item["host"] is None for item in items):
            raise click.exceptions.Exit(NoPlacement.exit_status)


def _item(found: Explanation) -> dict[str, Any]:
    return {
        "vm": found.vm,
        "host": found.host,
        "reasons": [reason_item(reason) for reason in found.reasons],
    }


def _text(item: dict[str, Any]) -> str:
    verdict = f"fits: would go to {item['host']}" if item["host"] else "fits nowhere"
    rows = reason_rows(item["reasons"])
    return "\n".join([f"{item['vm']}: {verdict}", *([table(rows)] if rows else [])])

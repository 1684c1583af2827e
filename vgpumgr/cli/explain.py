"""``vgpumgr explain``."""

from __future__ import annotations

from typing import Any

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.files import file_option, load_vms
from vgpumgr.cli.looking import refresh_option, refreshed
from vgpumgr.cli.output import output_option, print_item, table
from vgpumgr.model.errors import NoPlacement, NotFound
from vgpumgr.model.placement import NotPlaced, Reason
from vgpumgr.model.vm import VmSpec


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
    from vgpumgr.engine.supply import build_fleet
    from vgpumgr.engine.view import read_view
    from vgpumgr.placement import explain as reasons_for
    from vgpumgr.placement import place

    specs = [spec for spec in load_vms(context, file) if name in {None, spec.name}]
    if not specs:
        raise NotFound(f"{file} names no VM {name}")
    with refreshed(context, refresh):
        fleet = build_fleet(read_view(context.app.ledger))
        items = []
        for spec in specs:
            decision = place(fleet, [spec], context.config.policy)[0]
            host = None if isinstance(decision, NotPlaced) else decision.host
            items.append(_item(spec, host, reasons_for(fleet, spec)))
        text = "\n".join(_text(item) for item in items)
        print_item("Explanation", {"name": "explain", "items": items}, text)
        if any(item["host"] is None for item in items):
            raise click.exceptions.Exit(NoPlacement.exit_status)


def _item(spec: VmSpec, host: str | None, reasons: tuple[Reason, ...]) -> dict[str, Any]:
    return {
        "vm": spec.name,
        "host": host,
        "reasons": [
            {
                "code": each.code,
                "host": each.host,
                "gpu": each.gpu,
                "device": each.device,
                "model": each.model,
                "text": each.text,
                "facts": dict(each.facts),
            }
            for each in reasons
        ],
    }


def _text(item: dict[str, Any]) -> str:
    verdict = f"fits: would go to {item['host']}" if item["host"] else "fits nowhere"
    rows = [[f"  {r['host']}", r["device"] or "-", r["text"]] for r in item["reasons"]]
    return "\n".join([f"{item['vm']}: {verdict}", *([table(rows)] if rows else [])])
